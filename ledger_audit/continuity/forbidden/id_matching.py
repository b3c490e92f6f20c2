"""
Decides which records a list of ids speaks of, by id, source and span of tokens.

LISTED is one line of a list: sample_id, source (null: any), token_start and token_end (null: the
whole sample). A record without a source may be of any; where either has no span, whole samples are
compared.
"""

import polars as pl

LISTED = ("sample_id", "source", "token_start", "token_end")

_OF = ["sample_id", "kind", "source"]
"""What makes a group: the lines that speak of the same records."""

_APART = pl.lit(1 << 64, pl.Int128)
"""Between the tokens of one group and the next: many small windows cost far more than one scan."""

_NO_SOURCE, _SAME_SOURCE, _OTHER_SOURCE = 0, 1, 2
"""The kinds of groups: for records without a source, of one that the list has for this id, and of
another one."""


def forbidden_among(records: pl.DataFrame, listed: pl.DataFrame, overlap: int) -> pl.DataFrame:
    """
    Give the records that a list forbids.

    Args:
        records: sample_id, source, token_start, token_end and more, each a record of its own.
        listed: LISTED.
        overlap: tokens that a record may share with a listed stretch by design.

    Returns:
        The records, with `against`: how many of its tokens are listed; null without a span.
    """
    rows = _covered(records, listed, overlap)
    is_whole = pl.col("is_whole") | pl.col("length").is_null()
    return (
        rows.filter(pl.col("group").is_not_null(), is_whole | (pl.col("covered") > 0))
        .with_columns(against=pl.when(is_whole).then("length").otherwise("covered"))
        .select(*records.columns, "against")
    )


def strangers_among(records: pl.DataFrame, listed: pl.DataFrame, overlap: int) -> pl.DataFrame:
    """
    Give the records that a list does not allow.

    Args:
        records: as above.
        listed: LISTED.
        overlap: tokens that a record may have beyond what is listed.

    Returns:
        The records, with `against`: how many of its tokens are not listed; null without a span.
    """
    rows = _covered(records, listed, 0)
    is_whole = pl.col("is_whole") | pl.col("length").is_null()
    beyond = pl.col("length") - pl.when("is_whole").then("length").otherwise("covered")
    is_listed = pl.col("group").is_not_null() & (is_whole | (beyond <= overlap))
    return (
        rows.filter(~is_listed)
        .with_columns(against=pl.when(pl.col("group").is_null()).then("length").otherwise(beyond))
        .select(*records.columns, "against")
    )


def _covered(records: pl.DataFrame, listed: pl.DataFrame, overlap: int) -> pl.DataFrame:
    """
    Say of each record what a list has of it.

    Returns:
        The records in their order, with group (null: no line speaks of it), is_whole (a line
        without a span does), length (of its span; null: none), covered (its tokens that are
        listed, less those that a listed stretch shares with it by design; of whole samples 0).
    """
    ids = records.select("sample_id").unique()
    lines = _grouped(listed.join(ids, on="sample_id", how="semi").unique())
    groups = (
        lines.group_by(_OF)
        .agg(is_whole=~_HAS_SPAN.all())
        .sort(_OF)
        .with_row_index("group")
        .with_columns(pl.col("group").cast(pl.Int64))
    )
    lines = lines.join(groups.select(*_OF, "group"), on=_OF, nulls_equal=True)
    runs = _runs(lines.filter(_HAS_SPAN), overlap)
    known = groups.filter(pl.col("kind") == _SAME_SOURCE).select("sample_id", "source", same=True)
    kind = (
        pl.when(pl.col("source").is_null())
        .then(_NO_SOURCE)
        .when("same")
        .then(_SAME_SOURCE)
        .otherwise(_OTHER_SOURCE)
        .cast(pl.Int8)
    )
    rows = (
        records.with_row_index("nth")
        .join(known, on=["sample_id", "source"], how="left")
        .with_columns(kind=kind, of=pl.when("same").then("source"))
        .join(
            groups,
            left_on=["sample_id", "kind", "of"],
            right_on=_OF,
            how="left",
            nulls_equal=True,
        )
        .with_columns(
            length=pl.when(_HAS_SPAN).then(pl.col("token_end") - pl.col("token_start")),
            is_whole=pl.col("is_whole").fill_null(value=False),
        )
    )
    return _with_overlap(rows, runs, overlap).sort("nth")


_HAS_SPAN = pl.col("token_start").is_not_null() & pl.col("token_end").is_not_null()


def _grouped(listed: pl.DataFrame) -> pl.DataFrame:
    """Give each line once for every group of records that it speaks of: LISTED and `kind`."""
    of_any = listed.filter(pl.col("source").is_null())
    of_one = listed.filter(pl.col("source").is_not_null())
    pairs = of_one.select("sample_id", of="source").unique()
    both = of_any.join(pairs, on="sample_id").with_columns(source="of").select(LISTED)
    nowhere = pl.lit(None, pl.String)
    kinds = (
        (listed.with_columns(source=nowhere), _NO_SOURCE),
        (pl.concat([of_one, both]), _SAME_SOURCE),
        (of_any, _OTHER_SOURCE),
    )
    return pl.concat(
        [lines.with_columns(kind=pl.lit(kind, pl.Int8)) for lines, kind in kinds],
    )


def _runs(lines: pl.DataFrame, overlap: int) -> pl.DataFrame:
    """
    Join listed spans of a group that overlap or touch.

    Returns:
        group, begin, end, below (listed tokens of the group before it), sorted by begin. What
        is no longer than `overlap` is left out: a record can share all of it by design.
    """
    group = pl.col("group").cast(pl.Int128) * _APART
    reached = (group + pl.col("token_end")).cum_max().shift(1)
    is_new = (group + pl.col("token_start") > reached).fill_null(value=True)
    is_first = (pl.col("group") != pl.col("group").shift(1)).fill_null(value=True)
    return (
        lines.sort("group", "token_start")
        .with_columns(run=is_new.cum_sum())
        .group_by("run", maintain_order=True)
        .agg(
            pl.col("group").first(),
            begin=pl.col("token_start").first(),
            end=pl.col("token_end").max(),
        )
        .filter(pl.col("end") - pl.col("begin") > overlap)
        .with_columns(
            below=(pl.col("end") - pl.col("begin")).cum_sum().shift(1, fill_value=0),
        )
        .with_columns(
            below=pl.col("below") - pl.when(is_first).then("below").forward_fill(),
        )
        .select("group", "begin", "end", "below")
        .sort("begin")
    )


def _with_overlap(rows: pl.DataFrame, runs: pl.DataFrame, overlap: int) -> pl.DataFrame:
    """
    Count the listed tokens of each record, in two look-ups and however many runs it spans.

    Of a run that begins before the record, or ends after it, only a part is the record's: it
    counts if it is more than `overlap`. Every run within the record counts.
    """
    spanned = rows.filter(pl.col("length").is_not_null(), pl.col("group").is_not_null())
    found = spanned.select("nth", "group", "token_start", "token_end")
    for at, name in (("token_start", "first"), ("token_end", "last")):
        found = found.sort(at).join_asof(
            runs.select("group", begin="begin", end="end", below="below").rename(
                {"begin": f"{name}_begin", "end": f"{name}_end", "below": f"{name}_below"}
            ),
            left_on=at,
            right_on=f"{name}_begin",
            by="group",
            strategy="backward",
            check_sortedness=False,
        )

    def below(at: str, name: str) -> pl.Expr:
        """Count the listed tokens before a token."""
        begin, end = pl.col(f"{name}_begin"), pl.col(f"{name}_end")
        inside = pl.min_horizontal(pl.col(at), end) - begin
        return (pl.col(f"{name}_below") + inside).fill_null(0)

    first = pl.min_horizontal("first_end", "token_end") - pl.col("token_start")
    last = pl.min_horizontal("last_end", "token_end") - pl.col("last_begin")
    is_cut_first = (pl.col("first_begin") < pl.col("token_start")) & first.is_between(1, overlap)
    is_cut_last = (
        (pl.col("last_begin") >= pl.col("token_start"))
        & (pl.col("last_end") > pl.col("token_end"))
        & last.is_between(1, overlap)
    )
    shared = pl.when(is_cut_first).then(first).otherwise(0)
    shared += pl.when(is_cut_last).then(last).otherwise(0)
    covered = below("token_end", "last") - below("token_start", "first") - shared
    found = found.select("nth", covered=covered)
    return rows.join(found, on="nth", how="left").with_columns(pl.col("covered").fill_null(0))
