"""`ledger-audit reference`: the stream that is expected, without a control run."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ledger_audit.cli.options import LEDGER, Number
from ledger_audit.cli.output import say
from ledger_audit.cli.progress import progress
from ledger_audit.printable import counted, printable

if TYPE_CHECKING:
    from ledger_audit.stream.pieces import Derived

Command = TypeVar("Command", bound=Callable[..., Any])

COUNT = Number(min=1)


@click.group()
def reference() -> None:
    """
    Write the stream that a job should consume, worked out from what decides its order.

    It is a ledger with positions. `diff --reference` judges resumes by it, `gate` a whole run.
    """


def _dealt(command: Command) -> Command:
    """Add the options that say to whom the stream is dealt, and where it is written."""
    for option in reversed(
        (
            click.option(
                "-o",
                "--output",
                "target",
                required=True,
                type=LEDGER,
                metavar="REF",
                help="A new folder.",
            ),
            click.option(
                "--world-size", required=True, type=COUNT, help="Ranks that shard the data."
            ),
            click.option(
                "--micro-batch", required=True, type=COUNT, help="Sequences of a rank and slot."
            ),
        )
    ):
        command = option(command)
    return command


GLOBAL_BATCH = click.option(
    "--global-batch", required=True, type=COUNT, help="Sequences of all ranks in a step."
)


@reference.command()
@click.argument("description", type=LEDGER)
@_dealt
@GLOBAL_BATCH
@click.option(
    "--rampup",
    type=(COUNT, COUNT, COUNT),
    metavar="START INCREMENT SAMPLES",
    help="How the global batch grows to that.",
)
@click.option(
    "--samples", type=COUNT, help="Sequences of the run. Default: as the index was built for."
)
@click.option(
    "--data-prefix",
    "prefixes",
    multiple=True,
    type=LEDGER,
    metavar="PREFIX",
    help="Where a data set's .idx file is, if not where the description says. Repeatable.",
)
def megatron(
    description: Path,
    target: Path,
    world_size: int,
    micro_batch: int,
    global_batch: int,
    rampup: tuple[int, int, int] | None,
    samples: int | None,
    prefixes: tuple[Path, ...],
) -> int:
    """
    From the index files of Megatron-core.

    DESCRIPTION is the …-description.txt of the data set that trains, or of the blend, in the
    cache folder of the run; its arrays stand beside it.
    """
    from ledger_audit.stream.megatron import Ramp, derive
    from ledger_audit.stream.pieces import Sharding

    ramp = None if rampup is None else Ramp(*rampup)
    sharding = Sharding(world_size, micro_batch)
    return _write(
        derive(description, sharding, global_batch, ramp=ramp, samples=samples, prefixes=prefixes),
        target,
    )


@reference.command(name="distributed-sampler")
@_dealt
@click.option("--samples", required=True, type=COUNT, help="Samples of the data set: ids 0 to N-1.")
@click.option(
    "--accumulation", type=COUNT, default=1, show_default=True, help="Micro-batches of a step."
)
@click.option(
    "--seed", type=int, metavar="N", default=0, show_default=True, help="The seed of the sampler."
)
@click.option("--epochs", type=COUNT, default=1, show_default=True, help="Epochs of the run.")
@click.option(
    "--first-epoch",
    type=Number(min=0),
    default=0,
    show_default=True,
    help="What set_epoch() got first.",
)
@click.option("--no-shuffle", is_flag=True, help="The sampler was made with shuffle=False.")
@click.option("--drop-last", is_flag=True, help="The sampler was made with drop_last=True.")
@click.option("--drop-last-batch", is_flag=True, help="The loader was made with drop_last=True.")
@click.option(
    "--epoch-end",
    type=click.Choice(("flush", "carry", "drop")),
    default="flush",
    show_default=True,
    help="What micro-batches do that fill no step at an epoch's end: a smaller step, the next "
    "epoch's first step, or nothing.",
)
def distributed_sampler(
    target: Path, world_size: int, micro_batch: int, no_shuffle: bool, **options: Any
) -> int:
    """
    From the seed of PyTorch's DistributedSampler.

    Needs PyTorch, of the version that the run has:

    pip install 'ledger-audit[torch]'
    """
    from ledger_audit.stream.distributed_sampler import Recipe, derive
    from ledger_audit.stream.pieces import Sharding

    recipe = Recipe(shuffle=not no_shuffle, **options)
    return _write(derive(recipe, Sharding(world_size, micro_batch, is_strided=True)), target)


@reference.command()
@click.argument("indices", nargs=-1, required=True, type=LEDGER)
@_dealt
@GLOBAL_BATCH
@click.option(
    "--token-file",
    "files",
    multiple=True,
    type=LEDGER,
    metavar="FILE",
    help="The token files in the run's order, if the ledger names files and tokens. Repeatable.",
)
@click.option("--sequence-length", type=COUNT, help="Tokens of an instance, with --token-file.")
@click.option(
    "--token-bytes",
    type=click.Choice(("1", "2", "4", "8")),
    default="2",
    show_default=True,
    help="Bytes of a token, with --token-file.",
)
def olmo(
    indices: tuple[Path, ...],
    target: Path,
    world_size: int,
    micro_batch: int,
    global_batch: int,
    files: tuple[Path, ...],
    sequence_length: int | None,
    token_bytes: str,
) -> int:
    """
    From the global indices of OLMo-core.

    INDICES are the global_indices… files in the work folder of the run, one for each epoch.
    """
    from ledger_audit.stream.olmo import Tokens, derive
    from ledger_audit.stream.pieces import Sharding

    if bool(files) != (sequence_length is not None):
        raise click.UsageError("--token-file and --sequence-length belong together")
    tokens = Tokens(files, sequence_length, int(token_bytes)) if sequence_length else None
    sharding = Sharding(world_size, micro_batch, is_strided=True)
    return _write(derive(indices, sharding, global_batch, tokens=tokens), target)


@reference.command()
@click.argument("ids", type=LEDGER)
@_dealt
@GLOBAL_BATCH
@click.option(
    "--column",
    metavar="NAME",
    default="sample_id",
    show_default=True,
    help="Of the ids, in a table.",
)
@click.option("--source", metavar="NAME", help="The source of all ids, if the ledger names it.")
@click.option(
    "--epochs", type=COUNT, default=1, show_default=True, help="Times that it is gone through."
)
@click.option("--first-epoch", type=Number(min=0), help="Label epochs from this number on.")
@click.option(
    "--strided", is_flag=True, help="Every W-th id of a step is a rank's; else it gets neighbours."
)
def listing(
    ids: Path,
    target: Path,
    world_size: int,
    micro_batch: int,
    global_batch: int,
    strided: bool,
    **options: Any,
) -> int:
    """
    From a list of ids in their order of use.

    IDS is Parquet, Arrow, CSV, TSV, JSON Lines, or text with one id a line.
    """
    from ledger_audit.references import listed_ids
    from ledger_audit.stream.listing import derive
    from ledger_audit.stream.pieces import Sharding

    listed = listed_ids(ids, options.pop("column"), options.pop("source"))
    sharding = Sharding(world_size, micro_batch, is_strided=strided)
    return _write(derive(listed, sharding, global_batch, path=ids, **options), target)


def _write(expected: "Derived", target: Path) -> int:
    from ledger_audit.references import write

    with progress() as told:
        done = write(expected, target, told)
    steps = "no step" if done.last_step is None else f"steps {done.first_step} to {done.last_step}"
    say(
        f"Wrote {counted(done.records, 'record')} of a stream ({expected.kind}) to "
        f"{printable(str(target))}: {counted(expected.world_size, 'rank')}, {steps}\n"
    )
    return 0
