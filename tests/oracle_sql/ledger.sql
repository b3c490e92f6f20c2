-- The second oracle: section 5 of the design as DuckDB SQL.
-- Every table is one rule. `READING:` marks a place where the text left a choice.
-- `--: name` begins a section that `judge` runs as a whole.

--: tables
-- Lines as they were read; `side` is run or control, `ord` the order in the files.
CREATE TABLE raw (side VARCHAR, ord BIGINT, j JSON);

--: ledger
-- Rule "the line number within its (attempt, rank) is its seq where none is given".
CREATE TABLE line AS
SELECT side, ord, j, j->>'$.kind' AS kind, j->>'$.attempt' AS attempt,
       coalesce((j->>'$.rank')::INT, 0) AS rank, (j->>'$.step')::BIGINT AS step,
       coalesce((j->>'$.seq')::BIGINT,
                row_number() OVER (PARTITION BY side, j->>'$.attempt', j->>'$.rank' ORDER BY ord)
                - 1) AS seq
FROM raw;

-- Commits and voids, numbered within their rank and step: the n-th one closes the n-th try.
-- READING: only the audited stream is compared with a commit's `samples`, as it counts training.
CREATE TABLE mark AS
SELECT side, attempt, rank, step, seq, kind,
       CASE WHEN getvariable('stream') IS NULL
            THEN (j->>'$.data.samples')::BIGINT END AS samples,
       row_number() OVER (PARTITION BY side, attempt, rank, step ORDER BY seq, ord) AS nth
FROM line WHERE kind IN ('commit', 'void') AND step IS NOT NULL;

-- Used records of the one stream; a try is the records between two marks of a rank and step.
CREATE TABLE rec AS
WITH used AS (
  SELECT side, ord, attempt, rank, step, seq, 'sample' AS kind,
         coalesce((j->>'$.slot')::INT, 0) AS slot, (j->>'$.row')::INT AS given_row,
         j->>'$.sample_id' AS sid, (j->>'$.token_start')::BIGINT AS t0,
         (j->>'$.token_end')::BIGINT AS t1, j->>'$.source' AS src,
         (j->>'$.epoch')::BIGINT AS epoch, (j->>'$.position')::BIGINT AS pos
  FROM line
  WHERE kind = 'sample' AND step IS NOT NULL
    AND (j->>'$.stream') IS NOT DISTINCT FROM getvariable('stream')
    AND coalesce(j->>'$.stage', 'used') = 'used'
), timed AS (
  SELECT * FROM used
  UNION ALL BY NAME
  SELECT side, attempt, rank, step, seq, kind FROM mark
), tried AS (
  SELECT *, count(*) FILTER (kind <> 'sample')
              OVER (PARTITION BY side, attempt, rank, step ORDER BY seq) + 1 AS try
  FROM timed
)
SELECT row_number() OVER (ORDER BY t.side, t.ord) AS id, t.side, t.attempt, t.rank, t.step, t.slot,
       -- "where a foreign log has no `row`, the order of writing gives it"
       coalesce(t.given_row, row_number() OVER (
         PARTITION BY t.side, t.attempt, t.rank, t.step, t.slot, t.try ORDER BY t.seq) - 1) AS row,
       t.try, t.seq, t.sid, t.t0, t.t1, t.src, t.epoch, t.pos,
       coalesce(m.kind = 'void', false) AS void
FROM tried t
LEFT JOIN mark m ON m.side = t.side AND m.attempt = t.attempt AND m.rank = t.rank
                AND m.step = t.step AND m.nth = t.try
WHERE t.kind = 'sample';

-- One row per attempt: what its start events say. The loaded cursor (`restored`) outranks the
-- launcher's `resumed_from` (section 4); disagreeing starts make the attempt mixed.
CREATE TABLE att AS
WITH said AS (
  SELECT side, attempt, rank, ord, j->>'$.data.world_size' AS world,
         CASE WHEN (j->>'$.data.restored.attempt') IS NOT NULL
                   AND (j->>'$.data.restored.step') IS NOT NULL
              THEN j->>'$.data.restored.attempt'
              ELSE j->>'$.data.resumed_from.attempt' END AS parent,
         CASE WHEN (j->>'$.data.restored.attempt') IS NOT NULL
                   AND (j->>'$.data.restored.step') IS NOT NULL
              THEN j->>'$.data.restored.step'
              ELSE j->>'$.data.resumed_from.step' END AS c,
         coalesce(j->>'$.run_id', j->>'$.data.run_id') AS run_id,
         CASE WHEN json_type(j, '$.data.logged_ranks') = 'ARRAY'
              THEN (j->'$.data.logged_ranks')::INT[] END AS logged,
         (j->>'$.data.fingerprint.dataset_samples')::BIGINT AS n,
         j->>'$.data.fingerprint.sampler' AS sampler,
         (j->>'$.data.fingerprint.workers')::INT AS workers,
         (j->>'$.time_ns')::HUGEINT AS time_ns
  FROM line WHERE kind = 'start'
), one AS (
  SELECT side, attempt, min(ord) AS ord, min(time_ns) AS time_ns,
         arg_min(world, ord)::INT AS world, arg_min(parent, ord) AS parent,
         arg_min(c, ord)::BIGINT AS c, arg_min(logged, ord) AS logged, arg_min(n, ord) AS n,
         arg_min(sampler, ord) AS sampler, arg_min(workers, ord) AS workers,
         count(DISTINCT (coalesce(run_id, ''), coalesce(parent, ''), coalesce(c, ''),
                         coalesce(world, ''))) > 1 AS mixed
  FROM said GROUP BY ALL
)
SELECT a.side, a.attempt, coalesce(o.ord, a.ord) AS ord, o.time_ns, o.world, o.parent, o.c,
       o.logged, o.n, o.sampler, o.workers, coalesce(o.mixed, false) AS mixed, a.ended
FROM (SELECT side, attempt, min(ord) AS ord, bool_or(kind = 'end') AS ended
      FROM line GROUP BY ALL) a
LEFT JOIN one o USING (side, attempt);

-- Every rank that left a record, a commit or a void, with the last step that it reached.
CREATE TABLE alive AS
SELECT side, attempt, rank, max(step) AS reached
FROM (SELECT side, attempt, rank, step FROM rec
      UNION ALL SELECT side, attempt, rank, step FROM mark) GROUP BY ALL;

-- Lineage: from the newest attempt that nobody resumed from, up the parent links.
-- READING: newest by start time, then by label (numbers as numbers), then by order of reading.
-- READING: a parent that began after the C that was loaded made none of the weights: passed over
-- (`floor` is the lowest C so far).
CREATE TABLE chain AS
WITH RECURSIVE leaf AS (
  SELECT side, attempt FROM att a
  WHERE NOT EXISTS (FROM att b WHERE b.side = a.side AND b.parent = a.attempt
                    AND b.attempt <> a.attempt)
  QUALIFY row_number() OVER (PARTITION BY side ORDER BY time_ns DESC NULLS LAST,
    try_cast(attempt AS BIGINT) DESC NULLS LAST, ord DESC) = 1
), up AS (
  SELECT a.side, a.attempt, a.parent, a.c, 0 AS back, a.c AS floor, true AS kept
  FROM att a JOIN leaf USING (side, attempt)
  UNION ALL
  SELECT a.side, a.attempt, a.parent, a.c, up.back + 1, least(up.floor, a.c),
         a.parent IS NULL OR a.c <= up.floor
  FROM up JOIN att a ON a.side = up.side AND a.attempt = up.parent
  WHERE up.back < 10000 AND up.parent <> up.attempt
)
-- `k` counts from the oldest; `next_c` is where the lineage's next attempt resumed.
SELECT side, attempt, parent, c, back,
       row_number() OVER (PARTITION BY side ORDER BY back DESC) - 1 AS k,
       coalesce(c, -1) AS lo,
       min(c) OVER (PARTITION BY side ORDER BY back DESC
                    ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS hi,
       lead(c) OVER (PARTITION BY side ORDER BY back DESC) AS next_c
FROM up WHERE kept;

-- Who takes part in a step: the last `membership` (its step is the first it holds for), else all
-- of `world_size`, else (no start event) the ranks that were seen.
CREATE TABLE part AS
WITH stepped AS (
  SELECT DISTINCT side, attempt, step FROM (
    SELECT side, attempt, step FROM rec UNION ALL SELECT side, attempt, step FROM mark)
), member AS (
  SELECT side, attempt, coalesce(step, 0) AS since, (j->'$.data.ranks')::INT[] AS ranks, seq
  FROM line WHERE kind = 'membership' AND json_type(j, '$.data.ranks') = 'ARRAY'
), latest AS (
  SELECT s.side, s.attempt, s.step, arg_max(m.ranks, (m.since, m.seq)) AS ranks
  FROM stepped s JOIN member m ON m.side = s.side AND m.attempt = s.attempt AND m.since <= s.step
  GROUP BY ALL
), seen AS (
  SELECT side, attempt, list(DISTINCT rank) AS ranks FROM alive GROUP BY ALL
), taking AS (
  SELECT s.side, s.attempt, s.step, a.logged,
         unnest(coalesce(l.ranks, range(a.world)::INT[], e.ranks)) AS rank
  FROM stepped s JOIN att a USING (side, attempt)
  LEFT JOIN latest l USING (side, attempt, step) LEFT JOIN seen e USING (side, attempt)
)
SELECT t.side, t.attempt, t.step, t.rank,
       t.logged IS NULL OR list_contains(t.logged, t.rank) AS logged,
       (t.logged IS NULL OR list_contains(t.logged, t.rank)) AND v.rank IS NULL AS missing,
       v.reached
FROM taking t LEFT JOIN alive v USING (side, attempt, rank);

-- Records that a commit counted and the log does not hold.
CREATE TABLE short AS
SELECT m.side, m.attempt, m.rank, m.step, greatest(m.samples - count(r.id), 0) AS lacking
FROM mark m
LEFT JOIN rec r ON r.side = m.side AND r.attempt = m.attempt AND r.rank = m.rank
               AND r.step = m.step AND r.try = m.nth
WHERE m.samples > 0 AND m.kind = 'commit'
GROUP BY m.side, m.attempt, m.rank, m.step, m.nth, m.samples
HAVING m.samples > count(r.id);

-- Facts of a step: committed (by the fact of a resume, by votes, or assumed where the ledger has
-- no commit event), voided by all, complete (records of every logged rank), what is missing.
CREATE TABLE stepinfo AS
WITH held AS (
  SELECT side, attempt, step, rank, count(*) AS records FROM rec GROUP BY ALL
), marked AS (
  SELECT side, attempt, step, rank, bool_or(kind = 'commit') AS committed,
         bool_or(kind = 'void') AS voided FROM mark GROUP BY ALL
), fact AS (
  -- Decision: any attempt that resumed from it counts, in the lineage or outside.
  SELECT side, parent AS attempt, max(c) AS c FROM att WHERE parent IS NOT NULL GROUP BY ALL
), events AS (
  SELECT side, bool_or(kind = 'commit') AS any_commit FROM line GROUP BY ALL
), lacks AS (
  SELECT side, attempt, step, sum(lacking) AS lacking FROM short GROUP BY ALL
), votes AS (
  SELECT p.side, p.attempt, p.step, count(*) AS takers,
         count(*) FILTER (p.logged AND NOT p.missing) AS voters,
         count(*) FILTER (p.logged AND NOT p.missing AND m.committed) AS yes,
         count(*) FILTER (p.logged AND NOT p.missing AND p.reached >= p.step) AS reached,
         count(*) FILTER (p.logged) AS logged,
         count(*) FILTER (p.logged AND h.records > 0) AS holders,
         count(*) FILTER (p.logged AND m.voided) AS voiders,
         count(*) FILTER (p.missing) AS missing, count(*) FILTER (NOT p.logged) AS unlogged,
         coalesce(max(h.records), 0) AS fullest
  FROM part p LEFT JOIN held h USING (side, attempt, step, rank)
  LEFT JOIN marked m USING (side, attempt, step, rank) GROUP BY ALL
), final AS (
  -- READING: "the last of an attempt" is the last step that every voter reached (a torn file).
  SELECT side, attempt, max(step) AS step FROM votes WHERE voters > 0 AND reached = voters
  GROUP BY ALL
), judged AS (
  SELECT v.*, coalesce(v.step <= f.c, false) OR (v.voters > 0 AND CASE WHEN e.any_commit
           THEN v.yes = v.voters
           ELSE v.reached = v.voters AND (a.ended OR v.step < l.step) END) AS committed,
         coalesce(k.lacking, 0) AS lacking
  FROM votes v JOIN att a USING (side, attempt) JOIN events e USING (side)
  LEFT JOIN final l USING (side, attempt)
  LEFT JOIN fact f USING (side, attempt)
  LEFT JOIN lacks k ON k.side = v.side AND k.attempt = v.attempt AND k.step = v.step
)
SELECT side, attempt, step, takers, committed, unlogged,
       missing * fullest + lacking AS missing_records, unlogged * fullest AS unlogged_records,
       -- READING: a step with a record known to be missing is not whole, on either side.
       logged > 0 AND holders = logged AND lacking = 0
         AND (committed OR voiders = logged) AS whole
FROM judged;

-- W, b and A of an attempt.
-- READING: b and A are measured (most rows of a rank and slot, most slots of a rank and step).
CREATE TABLE shape AS
WITH slots AS (
  SELECT side, attempt, rank, step, try, slot, count(DISTINCT row) AS b FROM rec GROUP BY ALL
), steps AS (
  SELECT side, attempt, rank, step, try, max(b) AS b, count(*) AS a FROM slots GROUP BY ALL
), ranks AS (
  SELECT side, attempt, count(*) AS seen FROM alive GROUP BY ALL
)
SELECT t.side, t.attempt, coalesce(t.world, k.seen, 1) AS w, coalesce(max(s.b), 1) AS b,
       coalesce(max(s.a), 1) AS a, t.n, coalesce(t.sampler = 'DistributedSampler', false) AS ds
FROM att t LEFT JOIN steps s USING (side, attempt) LEFT JOIN ranks k USING (side, attempt)
GROUP BY t.side, t.attempt, t.world, k.seen, t.n, t.sampler;

-- What a sampler adds at an epoch's end: -N mod W, and unless it is a DistributedSampler also
-- -N mod W*b and -N mod W*b*A. Where N is not logged, the list is null.
CREATE MACRO pads(n, w, b, a, ds) AS CASE WHEN n IS NULL THEN NULL
  WHEN ds THEN [(w - n % w) % w]
  ELSE [(w - n % w) % w, (w * b - n % (w * b)) % (w * b),
        (w * b * a - n % (w * b * a)) % (w * b * a)] END;

