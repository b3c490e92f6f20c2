"""
Resumes an example wrongly, in a way that its framework allows: `wrong.py LOG KILL SCRIPT FOLDER`.

The script stays as it is; what it imports is changed.
"""

import functools
import sys
from importlib import import_module
from pathlib import Path

import spy


def trainer() -> None:
    """Restore the step and not the data, as an argument of the Trainer allows."""
    module = import_module("transformers")
    module.TrainingArguments = functools.partial(module.TrainingArguments, ignore_data_skip=True)


def lightning_fit() -> None:
    """Leave the sampler's epoch to Lightning, which sets it when the iterator is made already."""
    module = import_module("lightning")

    class Forgetful(module.LightningModule):  # type: ignore[name-defined,misc]
        def __init_subclass__(cls) -> None:
            del cls.on_load_checkpoint

    module.LightningModule = Forgetful


def accelerate_loop() -> None:
    """Draw the order from whatever generator there is."""
    import_module("accelerate").DataLoaderConfiguration = lambda **_: None


def main() -> None:
    """Change what the script imports, and run it."""
    {one.__name__: one for one in (trainer, lightning_fit, accelerate_loop)}[
        Path(sys.argv[3]).stem
    ]()
    spy.main()


if __name__ == "__main__":
    main()
