-- The second oracle: section 5 of the design as DuckDB SQL.
-- Every table is one rule. `READING:` marks a place where the text left a choice.
-- `--: name` begins a section that oracle_sql.py runs as a whole.

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
), final AS (
  SELECT side, attempt, max(reached) AS step FROM alive GROUP BY ALL
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
), judged AS (
  SELECT v.*, coalesce(v.step <= f.c, false) OR (v.voters > 0 AND CASE WHEN e.any_commit
           THEN v.yes = v.voters
           ELSE v.reached = v.voters AND (a.ended OR v.step < l.step) END) AS committed,
         coalesce(k.lacking, 0) AS lacking
  FROM votes v JOIN att a USING (side, attempt) JOIN events e USING (side)
  JOIN final l USING (side, attempt)
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

--: resume
-- One resume: variables k, parent, attempt, c, last (end of the window), side_ref, order_mode.
-- The kept segments as they stood at this resume: an attempt's own steps after its C, up to the
-- lowest C that a later one, this one included, went back to. For the control: to its end.
CREATE OR REPLACE TEMP TABLE seg AS
SELECT a.side, a.attempt, a.lo, min(b.c) AS hi FROM chain a
JOIN chain b ON b.side = 'run' AND b.k > a.k AND b.k <= getvariable('k')
WHERE a.side = 'run' AND a.k < getvariable('k') GROUP BY ALL
UNION ALL
SELECT side, attempt, lo, hi FROM chain WHERE side = 'control';

-- Decision: what was rolled back is all that the parent's lineage held beyond C when it died: its
-- own records to the last, its ancestors' up to where it left them (C may lie before its start).
CREATE OR REPLACE TEMP TABLE dead AS
WITH RECURSIVE up AS (
  SELECT side, attempt, parent, c, NULL::BIGINT AS hi, 0 AS back FROM att
  WHERE side = 'run' AND attempt = getvariable('parent')
  UNION ALL
  SELECT a.side, a.attempt, a.parent, a.c, least(up.hi, up.c), up.back + 1
  FROM up JOIN att a ON a.side = up.side AND a.attempt = up.parent
  WHERE up.back < 10000 AND up.parent <> up.attempt
)
SELECT side, attempt, coalesce(c, -1) AS lo, hi FROM up;

-- The windows, all in one table. com = committed; cvd = void tries at steps <= C of the lineage;
-- res = resumed; ref = reference; rol = rolled back; ctl = the control at steps <= C.
CREATE OR REPLACE TEMP TABLE pool AS
WITH lineage AS (
  SELECT r.* FROM rec r JOIN seg s USING (side, attempt)
  WHERE r.step > s.lo AND (s.hi IS NULL OR r.step <= s.hi)
)
SELECT CASE WHEN void THEN 'cvd' ELSE 'com' END AS win, * FROM lineage WHERE side = 'run'
UNION ALL
SELECT 'res', r.* FROM rec r JOIN stepinfo i USING (side, attempt, step)
WHERE side = 'run' AND attempt = getvariable('attempt') AND step > getvariable('c')
  AND step <= getvariable('last') AND (r.void OR i.committed)
UNION ALL
SELECT 'rol', r.* FROM rec r JOIN dead d USING (side, attempt)
WHERE r.step > getvariable('c') AND r.step > d.lo AND (d.hi IS NULL OR r.step <= d.hi)
UNION ALL
-- The surviving stream of the control, whose newest attempt counts whole, cut steps included.
SELECT CASE WHEN step > getvariable('c') THEN 'ref' ELSE 'ctl' END, *
FROM lineage WHERE side = 'control';

-- A control that differs in any step <= C (identities per step, padding forgiven).
-- READING: missing records forgive nothing here; void tries do not count; repeats are forgiven in
-- the last step of an epoch that is over in that stream.
CREATE OR REPLACE TEMP TABLE differs AS
WITH flag AS (
  SELECT count(src) FILTER (win = 'com') > 0 AND count(src) FILTER (win = 'ctl') > 0 AS src,
         count(epoch) FILTER (win = 'com') > 0 AND count(epoch) FILTER (win = 'ctl') > 0 AS epoch,
         count(t0) FILTER (win = 'com') > 0 AND count(t0) FILTER (win = 'ctl') > 0 AS t0,
         count(t1) FILTER (win = 'com') > 0 AND count(t1) FILTER (win = 'ctl') > 0 AS t1
  FROM pool
), x AS (
  SELECT CASE WHEN win IN ('ctl', 'ref') THEN 'ctl' ELSE 'com' END AS s, win, void, step, slot,
         rank, row, seq, sid, attempt, CASE WHEN flag.src THEN pool.src END AS fs,
         CASE WHEN flag.epoch THEN pool.epoch END AS fe, CASE WHEN flag.t0 THEN pool.t0 END AS f0,
         CASE WHEN flag.t1 THEN pool.t1 END AS f1
  FROM pool, flag WHERE win IN ('ctl', 'com', 'cvd', 'rol')
     OR (win = 'ref' AND side = 'control')
), final AS (
  SELECT s, fs, fe, max((step, slot)) AS ends, count(DISTINCT sid) AS distinct_ids
  FROM x WHERE fe IS NOT NULL GROUP BY ALL
), over_ AS (
  SELECT f.s, f.fs, f.fe, f.ends FROM final f
  WHERE EXISTS (FROM x WHERE x.s = f.s AND x.fs IS NOT DISTINCT FROM f.fs AND x.fe > f.fe
                AND (x.step, x.slot) > f.ends)
     OR f.distinct_ids >= (SELECT max(n) FROM att
          WHERE side = CASE WHEN f.s = 'ctl' THEN 'control' ELSE 'run' END)
), numbered AS (
  SELECT *, row_number() OVER (PARTITION BY s, sid, fs, fe, f0, f1
    ORDER BY step, slot, rank, row, seq) > 1 AS repeat
  FROM x WHERE win IN ('ctl', 'com') AND NOT void
), bare AS (
  SELECT n.s, n.step, n.sid, n.fs, n.fe, n.f0, n.f1, count(*) AS times
  FROM numbered n LEFT JOIN over_ o ON o.s = n.s AND o.fs IS NOT DISTINCT FROM n.fs
    AND o.fe IS NOT DISTINCT FROM n.fe AND n.fe IS NOT NULL
  WHERE NOT (n.repeat AND coalesce((o.ends[1]) = n.step, false)) GROUP BY ALL
)
SELECT getvariable('side_ref') = 'control' AND EXISTS (
  (SELECT step, sid, fs, fe, f0, f1, times FROM bare WHERE s = 'ctl'
   EXCEPT SELECT step, sid, fs, fe, f0, f1, times FROM bare WHERE s = 'com')
  UNION ALL
  (SELECT step, sid, fs, fe, f0, f1, times FROM bare WHERE s = 'com'
   EXCEPT SELECT step, sid, fs, fe, f0, f1, times FROM bare WHERE s = 'ctl')) AS yes;

-- Reference: the control unless it differs, else the rolled-back window of the parent.
CREATE OR REPLACE TEMP TABLE kind AS
SELECT CASE WHEN getvariable('side_ref') = 'control' AND NOT yes THEN 'control'
            ELSE 'rolled-back' END AS reference FROM differs;

-- Identity, first with every column that no non-empty window lacks, then without the epoch.
CREATE OR REPLACE TEMP TABLE keyed AS
WITH w AS (
  SELECT * FROM pool WHERE win IN ('com', 'cvd', 'res', 'rol')
     OR (win = 'ref' AND (SELECT reference FROM kind) = 'control')
  UNION ALL
  SELECT 'ref' AS win, * EXCLUDE (win) FROM pool
  WHERE win = 'rol' AND (SELECT reference FROM kind) = 'rolled-back'
), columns AS (
  SELECT coalesce(bool_and(s), true) AS src, coalesce(bool_and(e), true) AS epoch,
         coalesce(bool_and(a), true) AS t0, coalesce(bool_and(z), true) AS t1
  FROM (SELECT count(src) > 0 AS s, count(epoch) > 0 AS e, count(t0) > 0 AS a, count(t1) > 0 AS z
        FROM w WHERE win IN ('com', 'ref', 'res') GROUP BY win)
), x AS (
  SELECT w.*, CASE WHEN c.src THEN w.src END AS fs, CASE WHEN c.epoch THEN w.epoch END AS fe,
         CASE WHEN c.t0 THEN w.t0 END AS f0, CASE WHEN c.t1 THEN w.t1 END AS f1
  FROM w, columns c
)
SELECT *, dense_rank() OVER (ORDER BY sid, fs, fe, f0, f1) AS key_epoch,
       dense_rank() OVER (ORDER BY sid, fs, f0, f1) AS key_plain,
       row_number() OVER (PARTITION BY win ORDER BY step, slot, rank, row, seq) AS nth
FROM x;

-- The label is wrong: no record of the first resumed step is in the reference with its epoch, and
-- all are without it among the reference's first as many.
CREATE OR REPLACE TEMP TABLE relabelled AS
WITH first AS (
  SELECT * FROM keyed
  WHERE win = 'res' AND step = (SELECT min(step) FROM keyed WHERE win = 'res')
)
SELECT count(*) > 0 AND count(fe) > 0
   AND count(*) FILTER (key_epoch IN (SELECT key_epoch FROM keyed WHERE win = 'ref')) = 0
   AND count(*) = count(*) FILTER (key_plain IN (SELECT key_plain FROM keyed
         WHERE win = 'ref' AND nth <= (SELECT count(*) FROM first))) AS yes
FROM first;

-- The windows with their final identity (`key`) and epoch (`ep`, null when not in the identity).
CREATE OR REPLACE TEMP TABLE w AS
SELECT k.* EXCLUDE (key_epoch, key_plain, fe),
       CASE WHEN r.yes THEN key_plain ELSE key_epoch END AS key,
       CASE WHEN r.yes THEN NULL ELSE fe END AS ep
FROM keyed k, relabelled r;

CREATE OR REPLACE TEMP TABLE com AS SELECT * FROM w WHERE win = 'com';
CREATE OR REPLACE TEMP TABLE res AS SELECT * FROM w WHERE win = 'res';
CREATE OR REPLACE TEMP TABLE ref AS SELECT * FROM w WHERE win = 'ref';

-- Steps of the resumed window, with what is known to be missing there.
-- Decision: a step of the newest attempt that is not committed, while a later one is, has lost a
-- commit: what it holds unvoided is out of the window, and missing.
CREATE OR REPLACE TEMP TABLE resstep AS
WITH mine AS (
  SELECT * FROM stepinfo WHERE side = 'run' AND attempt = getvariable('attempt')
    AND step > getvariable('c') AND step <= getvariable('last')
), uncommitted AS (
  SELECT i.step, count(r.id) AS records FROM mine i
  LEFT JOIN rec r ON r.side = i.side AND r.attempt = i.attempt AND r.step = i.step AND NOT r.void
  WHERE NOT i.committed AND getvariable('last') = 4611686018427387904
    AND i.step < (SELECT max(step) FROM mine WHERE committed)
  GROUP BY i.step
)
SELECT i.* REPLACE (i.missing_records + coalesce(u.records, 0) AS missing_records)
FROM mine i LEFT JOIN uncommitted u USING (step)
WHERE i.committed OR u.step IS NOT NULL OR EXISTS (FROM res WHERE res.step = i.step);

-- Steps of the reference; an earlier attempt's end where the next one resumed.
CREATE OR REPLACE TEMP TABLE refstep AS
SELECT i.* FROM stepinfo i
JOIN (SELECT 'rolled-back' AS reference, * FROM dead
      UNION ALL SELECT 'control', * FROM seg WHERE side = 'control') d USING (side, attempt)
JOIN kind USING (reference)
WHERE i.step > getvariable('c') AND i.step > d.lo AND (d.hi IS NULL OR i.step <= d.hi);

-- The reference is whole through the last step up to which every step is (C: not even one).
CREATE OR REPLACE TEMP TABLE wholeref AS
SELECT coalesce(max(step), getvariable('c')) AS through FROM (
  SELECT step, step - getvariable('c') = row_number() OVER (ORDER BY step) AND
    bool_and(whole) OVER (ORDER BY step) AS good FROM refstep) WHERE good;

-- An epoch of a window is over when a later epoch's record follows its last one there, or its
-- distinct samples, those before C included, reach dataset_samples. (A void try still moves it.)
-- READING: needs the epoch in the identity; per source where the source is; "in that attempt" is
-- the window (for the committed one also what its last attempt wrote after C).
CREATE OR REPLACE TEMP TABLE ended AS
WITH own AS (
  SELECT 'res' AS s, * FROM res UNION ALL SELECT 'ref', * FROM ref
  UNION ALL SELECT 'com', * FROM w WHERE win IN ('com', 'cvd', 'rol')
), met AS (
  SELECT s, fs, ep, step, slot, sid, true AS mine FROM own WHERE ep IS NOT NULL
  UNION ALL
  SELECT v.s, w.fs, w.ep, w.step, w.slot, w.sid, false
  FROM w, (VALUES ('res'), ('ref')) v(s) WHERE w.win IN ('com', 'cvd') AND w.ep IS NOT NULL
  UNION ALL
  -- an epoch that the resumed attempt leapt over is over too
  SELECT 'res', fs, ep, step, slot, NULL, false FROM ref WHERE ep IS NOT NULL
), epochs AS (
  SELECT s, fs, ep, max((step, slot)) FILTER (mine) AS ends, count(DISTINCT sid) AS distinct_ids
  FROM met GROUP BY ALL
), size AS (
  SELECT 'res' AS s, n FROM att WHERE side = 'run' AND attempt = getvariable('attempt')
  UNION ALL SELECT 'com', n FROM att WHERE side = 'run' AND attempt = getvariable('parent')
  UNION ALL SELECT 'ref', max(n) FROM att, kind
  WHERE CASE WHEN kind.reference = 'control' THEN side = 'control'
             ELSE side = 'run' AND attempt = getvariable('parent') END
), furthest AS (
  SELECT s, fs, ep, max((step, slot)) AS at FROM met WHERE mine GROUP BY ALL
)
SELECT e.s, e.fs, e.ep, (e.ends)[1] AS last_step, e.distinct_ids FROM epochs e
LEFT JOIN size z USING (s)
WHERE coalesce(e.distinct_ids >= z.n, false)
   OR EXISTS (FROM furthest f WHERE f.s = e.s AND f.fs IS NOT DISTINCT FROM e.fs AND f.ep > e.ep
              AND (e.ends IS NULL OR f.at > e.ends));

-- Repeats: a record whose identity was used before, in the committed window or in its own.
-- Void tries are neither repeats nor earlier uses. `atend`: in the last step of an epoch over.
CREATE OR REPLACE TEMP TABLE uses AS
WITH line_ AS (
  SELECT 'res' AS s, 1 AS phase, id, key, step, slot, rank, row, seq, fs, ep, attempt, side
  FROM res WHERE NOT void
  UNION ALL
  SELECT 'ref', 1, id, key, step, slot, rank, row, seq, fs, ep, attempt, side
  FROM ref WHERE NOT void
  UNION ALL
  SELECT v.s, 0, id, key, step, slot, rank, row, seq, fs, ep, attempt, side
  FROM com, (VALUES ('res'), ('ref'), ('com')) v(s)
), numbered AS (
  SELECT *, row_number() OVER (PARTITION BY s, key
    ORDER BY phase, step, slot, rank, row, seq) > 1 AS repeat,
    bool_or(phase = 0) OVER (PARTITION BY s, key) AS consumed
  FROM line_
)
SELECT n.s, n.phase, n.id, n.key, n.step, n.fs, n.ep, n.side, n.attempt, n.repeat,
       n.consumed, n.repeat AND coalesce(e.last_step = n.step, false) AS atend
FROM numbered n
LEFT JOIN ended e ON e.s = n.s AND e.ep = n.ep AND e.fs IS NOT DISTINCT FROM n.fs;

-- Matching: three rounds (step, rank and slot; step; identity alone), the n-th left over with the
-- n-th. Void tries only afterwards.
-- READING: then non-void records first, so that a void try never takes a match from a retry.
CREATE OR REPLACE TEMP TABLE pair (a BIGINT, b BIGINT);
CREATE OR REPLACE TEMP MACRO meet(res_void, ref_void, same_step, same_place) AS TABLE
  WITH a AS (
    SELECT id, key, CASE WHEN same_step THEN step END AS s,
           CASE WHEN same_place THEN rank END AS r, CASE WHEN same_place THEN slot END AS t,
           row_number() OVER (PARTITION BY key, s, r, t ORDER BY step, slot, rank, row, seq) AS n
    FROM res WHERE void = res_void AND id NOT IN (SELECT a FROM pair)
  ), b AS (
    SELECT id, key, CASE WHEN same_step THEN step END AS s,
           CASE WHEN same_place THEN rank END AS r, CASE WHEN same_place THEN slot END AS t,
           row_number() OVER (PARTITION BY key, s, r, t ORDER BY step, slot, rank, row, seq) AS n
    FROM ref WHERE void = ref_void AND id NOT IN (SELECT b FROM pair)
  )
  SELECT a.id AS a, b.id AS b FROM a JOIN b ON a.key = b.key AND a.n = b.n
    AND a.s IS NOT DISTINCT FROM b.s AND a.r IS NOT DISTINCT FROM b.r
    AND a.t IS NOT DISTINCT FROM b.t;
INSERT INTO pair FROM meet(false, false, true, true);
INSERT INTO pair FROM meet(false, false, true, false);
INSERT INTO pair FROM meet(false, false, false, false);

--: void rounds
INSERT INTO pair FROM meet(false, true, true, true);
INSERT INTO pair FROM meet(false, true, true, false);
INSERT INTO pair FROM meet(false, true, false, false);
INSERT INTO pair FROM meet(true, false, true, true);
INSERT INTO pair FROM meet(true, false, true, false);
INSERT INTO pair FROM meet(true, false, false, false);
INSERT INTO pair FROM meet(true, true, true, true);
INSERT INTO pair FROM meet(true, true, true, false);
INSERT INTO pair FROM meet(true, true, false, false);

--: judgement
-- Every act that the lineage declared. `declared` are those that the resumed attempt declares at or
-- after C (or at no step). A `skip` names ids and positions (single, or [from, to) pairs).
-- READING: there sources only narrow them; without either they excuse by themselves.
-- Decision: a reset, reshuffle or blend is about its sources, and about all where it names none.
-- Declares of other attempts do not count.
CREATE OR REPLACE TEMP TABLE act AS
WITH told AS (
  SELECT k.kind, l.j->'$.data' AS d, l.j->'$.data'->k.kind AS said,
         l.attempt = getvariable('attempt')
           AND coalesce(l.step, getvariable('c')) >= getvariable('c') AS counts
  FROM line l JOIN chain c USING (side, attempt),
       (VALUES ('skip'), ('reset'), ('reshuffle'), ('blend')) k(kind)
  WHERE l.side = 'run' AND c.k <= getvariable('k') AND l.kind = 'declare'
    AND coalesce(l.j->'$.data'->>k.kind, 'false') <> 'false'
), named AS (
  SELECT kind, counts, CASE WHEN kind = 'skip' AND json_type(said) = 'ARRAY' THEN said
                    WHEN kind = 'skip' THEN said->'$.ids' END AS ids,
         CASE WHEN kind = 'skip' THEN said->'$.positions' END AS positions,
         CASE WHEN kind <> 'skip' AND json_type(said) = 'ARRAY' AND json_array_length(said) > 0
              THEN said
              WHEN coalesce(json_array_length(said->'$.sources'), 0) > 0 THEN said->'$.sources'
              WHEN coalesce(json_array_length(d->'$.sources'), 0) > 0 THEN d->'$.sources'
         END AS sources
  FROM told
)
SELECT kind, counts, ids::VARCHAR[] AS ids, sources::VARCHAR[] AS sources,
       flatten(list_transform(positions::JSON[], lambda p: CASE WHEN json_type(p) = 'ARRAY'
         THEN range((p->>'$[0]')::BIGINT, (p->>'$[1]')::BIGINT) ELSE [p::BIGINT] END)) AS positions
FROM named;
CREATE OR REPLACE TEMP TABLE declared AS SELECT * FROM act WHERE counts;

-- Expected records that a declaration names, and records whose source was begun anew by one.
CREATE OR REPLACE TEMP TABLE excused AS
SELECT r.id, coalesce(bool_or(d.kind <> 'skip'), false) AS anew
FROM (FROM ref UNION ALL FROM res) r JOIN declared d ON CASE
  WHEN d.kind <> 'skip' OR (d.ids IS NULL AND d.positions IS NULL)
  THEN (d.sources IS NULL AND d.kind <> 'skip') OR list_contains(d.sources, r.src)
  ELSE (coalesce(list_contains(d.ids, r.sid), false)
        OR coalesce(list_contains(d.positions, r.pos), false))
    AND (d.sources IS NULL OR r.src IS NULL OR list_contains(d.sources, r.src)) END
GROUP BY r.id;

-- Expected records that found a partner; a void one also by its identity.
CREATE OR REPLACE TEMP TABLE met AS
SELECT id FROM ref
WHERE id IN (SELECT b FROM pair) OR (void AND key IN (SELECT key FROM res));

-- Amounts: sequences of the reference through its last whole step, without end-of-epoch repeats.
-- READING: a void try counts in the reference unless its sequence was used again there (a retry
-- is one place of the stream, not two); in the resumed window all that was used counts.
CREATE OR REPLACE TEMP TABLE refamount AS
WITH live AS (SELECT DISTINCT key FROM ref WHERE NOT void)
SELECT count(DISTINCT (side, attempt, rank, step, slot, row, try)) AS sequences FROM ref
WHERE step <= (SELECT through FROM wholeref)
  AND NOT (void AND key IN (SELECT key FROM live))
  AND id NOT IN (SELECT id FROM uses WHERE s = 'ref' AND phase = 1 AND atend);

-- "Records so far": everything used, void tries, missing and unlogged records included.
CREATE OR REPLACE TEMP TABLE sofar AS
SELECT (SELECT count(*) FROM w WHERE win IN ('com', 'cvd'))
     + (SELECT coalesce(sum(i.missing_records + i.unlogged_records), 0)
        FROM stepinfo i JOIN seg s USING (side, attempt)
        WHERE side = 'run' AND i.step > s.lo AND i.step <= s.hi) AS records;

-- Decision: unmatched records that were skipped by declaration count as used from the start.
CREATE OR REPLACE TEMP TABLE passed_by AS
SELECT count(DISTINCT (side, attempt, rank, step, slot, row, try)) AS sequences FROM ref
WHERE id IN (SELECT id FROM excused) AND id NOT IN (SELECT id FROM met);

-- Per resumed step: what was used through it, what is missing, and whether the reference covers it.
CREATE OR REPLACE TEMP TABLE through AS
WITH per AS (
  SELECT step, count(*) AS records,
         count(DISTINCT (rank, step, slot, row, try)) FILTER (id NOT IN
           (SELECT id FROM uses WHERE s = 'res' AND phase = 1 AND atend)) AS sequences
  FROM res GROUP BY step
), summed AS (
  SELECT i.step, i.whole, sum(coalesce(p.sequences, 0)) OVER u AS sequences,
         sum(i.missing_records) OVER u AS missing,
         sum(coalesce(p.records, 0) + i.missing_records + i.unlogged_records) OVER u AS records
  FROM resstep i LEFT JOIN per p USING (step) WINDOW u AS (ORDER BY i.step)
)
SELECT s.step, s.whole, s.missing,
       s.sequences + s.missing + y.sequences <= a.sequences AS covers,
       coalesce(f.records + s.records <= t.n, false) AS fits
FROM summed s, refamount a, sofar f, passed_by y, att t
WHERE t.side = 'run' AND t.attempt = getvariable('attempt');

-- Repeats by design.
-- Decision: those of the committed window and the reference's own, less what the last step that the
-- reference shows of an epoch may hold as padding, against the largest padding for each epoch that
-- is over in the reference or in the resumed window (unknown N explains nothing).
-- READING: of the recipes along both windows, the one that pads most; the largest that there can be
-- is that of N where it is logged, else one short of a global batch.
CREATE OR REPLACE TEMP TABLE design AS
WITH recipe AS (
  SELECT max(coalesce(list_max(pads(n, w, b, a, ds)), 0)) AS padding,
         max(coalesce(list_max(pads(n, w, b, a, ds)),
                      CASE WHEN ds THEN w - 1 ELSE w * b * a - 1 END))
           FILTER (win = 'ref') AS most
  FROM shape JOIN (SELECT DISTINCT win, side, attempt FROM w WHERE win IN ('com', 'ref'))
       USING (side, attempt)
), mine AS (
  SELECT u.*, r.void FROM uses u JOIN ref r USING (id)
  WHERE u.s = 'ref' AND u.phase = 1 AND u.repeat
), final AS (
  SELECT fs, ep, max(step) AS step FROM ref WHERE ep IS NOT NULL GROUP BY ALL
), closing AS (
  SELECT count(*) AS repeats FROM mine m JOIN final f
    ON f.ep = m.ep AND f.fs IS NOT DISTINCT FROM m.fs AND f.step = m.step
  GROUP BY f.fs, f.ep
), gone AS (
  SELECT count(DISTINCT (coalesce(fs, ''), ep)) AS epochs FROM ended WHERE s IN ('ref', 'res')
)
SELECT (SELECT count(*) FROM uses WHERE s = 'com' AND repeat) + (SELECT count(*) FROM mine)
     - (SELECT coalesce(sum(repeats), 0) FROM closing, recipe WHERE repeats <= most)
     > gone.epochs * coalesce(recipe.padding, 0) AS repeats
FROM gone, recipe;

-- Padding: where the repeats of an epoch's last step are exactly as many as a sampler adds.
-- READING: `unknown` (cannot be told) where N is not logged, and where records of that very step
-- are missing or unlogged and could make up the number (losing a rank must never break).
-- Decision: `perhaps` where N is not logged and the epoch is not known to be over, but this is its
-- last step seen and the repeats there are fewer than a global batch (than ranks, for a
-- DistributedSampler); it counts only where the reference does not cover the step.
CREATE OR REPLACE TEMP TABLE padded AS
WITH final AS (
  -- cut steps included
  SELECT CASE WHEN (SELECT count(fs) > 0 FROM res) THEN src END AS fs, epoch AS ep,
         max(step) AS step FROM rec
  WHERE side = 'run' AND attempt = getvariable('attempt') AND step > getvariable('c')
    AND epoch IS NOT NULL GROUP BY ALL
), found AS (
  SELECT u.fs, u.ep, u.side, u.attempt, u.step, bool_or(u.atend) AS over_, count(*) AS repeats
  FROM uses u JOIN final f
    ON f.ep = u.ep AND f.fs IS NOT DISTINCT FROM u.fs AND f.step = u.step
  WHERE u.s = 'res' AND u.phase = 1 AND u.repeat GROUP BY ALL
), sized AS (
  SELECT f.fs, f.ep, f.step, f.over_, f.repeats, pads(h.n, h.w, h.b, h.a, h.ds) AS budgets,
         CASE WHEN h.ds THEN h.w - 1 ELSE h.w * h.b * h.a - 1 END AS most,
         i.missing_records + i.unlogged_records AS dark
  FROM found f JOIN shape h ON h.side = f.side AND h.attempt = f.attempt
  JOIN resstep i ON i.step = f.step
)
SELECT fs, ep, step, over_ AND coalesce(list_contains(budgets, repeats), false) AS exact,
       over_ AND (budgets IS NULL OR len(list_filter(budgets,
         lambda n: n > repeats AND n <= repeats + dark)) > 0) AS unknown,
       NOT over_ AND budgets IS NULL AND repeats <= most AS perhaps
FROM sized;

-- Are ranks unlogged on either side? Then nothing is unexpected and no skip is proven.
CREATE OR REPLACE TEMP TABLE sampled AS
SELECT EXISTS (FROM resstep WHERE unlogged > 0) OR EXISTS (FROM refstep WHERE unlogged > 0)
    OR EXISTS (FROM stepinfo WHERE side = 'run' AND unlogged > 0 AND attempt IN
               (getvariable('parent'), getvariable('attempt'))) AS yes;

-- Outcome of a resumed record, first that fits.
CREATE OR REPLACE TEMP TABLE resumed AS
SELECT r.id, r.rank, r.step, r.slot, r.key, r.void, p.b AS ref_id, f.step AS ref_step,
       f.rank AS ref_rank, CASE
  WHEN r.void THEN 'void'
  WHEN f.step = r.step THEN 'in-place'
  WHEN f.step IS NOT NULL THEN 'moved'
  WHEN u.atend AND d.exact THEN 'padding'
  WHEN u.atend AND d.unknown THEN 'repeat-unexplained'
  WHEN u.repeat AND d.perhaps AND NOT t.covers THEN 'repeat-unexplained'
  WHEN u.consumed OR u.repeat OR k.key IS NOT NULL THEN CASE
    -- proven where covered, or where the generation is known and repeats are not the design
    WHEN NOT (t.covers OR ((r.ep IS NOT NULL OR t.fits) AND NOT design.repeats))
      THEN 'repeat-unexplained'
    WHEN u.consumed THEN 'replayed' ELSE 'duplicated' END
  WHEN t.covers AND t.missing = 0 AND NOT sampled.yes AND getvariable('order_mode') <> 'none'
       AND NOT coalesce(r.pos > (SELECT max(pos) FROM ref), false)
       -- Decision: nor where a reset, reshuffle or blend was declared.
       AND NOT coalesce(x.anew, false) THEN 'unexpected'
  ELSE 'fresh' END AS outcome,
  coalesce(x.anew, false) AS anew,
  f.step = r.step AND NOT r.void AND (f.rank <> r.rank OR f.slot <> r.slot) AS misplaced
FROM res r CROSS JOIN design CROSS JOIN sampled
LEFT JOIN pair p ON p.a = r.id LEFT JOIN ref f ON f.id = p.b
LEFT JOIN uses u ON u.s = 'res' AND u.phase = 1 AND u.id = r.id
LEFT JOIN padded d ON d.ep = r.ep AND d.fs IS NOT DISTINCT FROM r.fs AND d.step = r.step
LEFT JOIN excused x ON x.id = r.id
LEFT JOIN (SELECT DISTINCT key FROM ref) k ON k.key = r.key
LEFT JOIN through t ON t.step = r.step;

-- Did the world change between reference and resumed attempt (or within one, by membership)?
CREATE OR REPLACE TEMP TABLE world AS
SELECT count(DISTINCT takers) > 1 AS changed
FROM (SELECT takers FROM resstep UNION ALL SELECT takers FROM refstep);

-- Frontier of each lane. A place is a reference step; where all records of both windows have
-- positions it is a position, one for all lanes. "The end" is beyond every place.
-- READING: void tries do not stand for the end; the position frontier is of the step, all ranks.
CREATE OR REPLACE TEMP TABLE frontier AS
WITH positions AS (
  -- Decision: after a declared reset positions give no places.
  SELECT count(*) > 0 AND count(pos) = count(*)
     AND NOT EXISTS (FROM declared WHERE kind = 'reset') AS all_
  FROM (SELECT pos FROM res UNION ALL SELECT pos FROM ref)
), lane AS (
  SELECT DISTINCT rank AS lane FROM ref
), matched AS (
  SELECT ref_rank AS lane, step, min(ref_step) AS place FROM resumed
  WHERE ref_id IS NOT NULL GROUP BY ALL
), instead AS (
  SELECT l.lane, r.step,
         bool_and(r.ref_id IS NULL AND r.key NOT IN (SELECT key FROM com)) AS beyond
  FROM lane l, world, resumed r
  WHERE NOT r.void AND (world.changed OR r.rank = l.lane) GROUP BY ALL
), by_step AS (
  SELECT lane, step, coalesce(m.place, CASE WHEN i.beyond THEN 9223372036854775807 END) AS place
  FROM matched m FULL JOIN instead i USING (lane, step)
), by_position AS (
  SELECT l.lane, r.step, min(r.pos) AS place FROM lane l, res r
  WHERE r.pos NOT IN (SELECT pos FROM com WHERE pos IS NOT NULL)
    AND ((SELECT count(pos) FROM com) > 0 OR r.key NOT IN (SELECT key FROM com)) GROUP BY ALL
), places AS (
  SELECT * FROM by_step WHERE NOT (SELECT all_ FROM positions)
  UNION ALL SELECT * FROM by_position WHERE (SELECT all_ FROM positions)
), top AS (
  SELECT lane, max(place) AS place FROM places GROUP BY lane
), tries AS (
  -- READING: a retry makes no batch larger.
  SELECT win, count(DISTINCT (rank, slot, row)) AS sequences FROM (FROM res UNION ALL FROM ref)
  GROUP BY win, side, attempt, step, try
), smaller AS (
  SELECT coalesce(max(sequences) FILTER (win = 'res') < max(sequences) FILTER (win = 'ref'), false)
    AS yes FROM tries
), late AS (
  -- Decision: where steps are smaller than the reference's, it takes several to use one of them up:
  -- its frontier is reached with the last that has any match there.
  SELECT ref_step AS place, max(step) AS step
  FROM (SELECT r.step, f.step AS ref_step FROM pair p JOIN res r ON r.id = p.a
        JOIN ref f ON f.id = p.b)
  WHERE (SELECT yes FROM smaller) AND NOT (SELECT all_ FROM positions) GROUP BY ALL
)
SELECT t.lane, t.place, greatest(min(p.step), max(l.step)) AS reached,
       (SELECT all_ FROM positions) AS by_pos
FROM top t JOIN places p ON p.lane = t.lane AND p.place = t.place
LEFT JOIN late l ON l.place = t.place GROUP BY ALL;


-- Epochs of the reference: the largest padding it may show in an epoch's last step.
-- READING: per epoch; without N, any number below one global batch.
CREATE OR REPLACE TEMP TABLE refpad AS
SELECT e.fs, e.ep, e.last_step, max(coalesce(list_max(pads(h.n, h.w, h.b, h.a, h.ds)),
         CASE WHEN h.ds THEN h.w - 1 ELSE h.w * h.b * h.a - 1 END)) AS largest
FROM ended e JOIN (SELECT DISTINCT fs, ep, step, side, attempt FROM ref) r
  ON r.ep = e.ep AND r.fs IS NOT DISTINCT FROM e.fs AND r.step = e.last_step
JOIN shape h ON h.side = r.side AND h.attempt = r.attempt
WHERE e.s = 'ref' GROUP BY ALL;

-- Outcome of an expected record, first that fits.
CREATE OR REPLACE TEMP TABLE expected AS
WITH consumed AS (
  SELECT key FROM com UNION SELECT key FROM res WHERE NOT void
), lost AS (
  SELECT DISTINCT rank FROM part WHERE side = 'run' AND attempt = getvariable('attempt')
    AND step IN (SELECT step FROM resstep) AND missing
), early AS (
  SELECT r.*, CASE
    WHEN r.id IN (SELECT id FROM met) THEN 'matched'
    WHEN r.id IN (SELECT id FROM excused) THEN 'declared' END AS settled,
    z.largest, z.ep IS NOT NULL AND r.key IN (SELECT key FROM consumed) AS padlike,
    -- moved past: its epoch is over there, or it lies before (or at) its lane's frontier
    o.ep IS NOT NULL
    OR (getvariable('order_mode') <> 'none' OR f.by_pos) AND coalesce(
         CASE WHEN f.by_pos THEN r.pos ELSE r.step END < f.place
         OR (CASE WHEN f.by_pos THEN r.pos ELSE r.step END = f.place
             AND EXISTS (FROM through t WHERE t.whole AND t.step > f.reached)), false) AS passed,
    r.rank IN (SELECT rank FROM lost) AS rank_lost
  FROM ref r
  LEFT JOIN refpad z ON z.ep = r.ep AND z.fs IS NOT DISTINCT FROM r.fs AND z.last_step = r.step
  LEFT JOIN ended o ON o.s = 'res' AND o.ep = r.ep AND o.fs IS NOT DISTINCT FROM r.fs
  LEFT JOIN frontier f ON f.lane = r.rank
), padded_ AS (
  SELECT *, settled IS NULL AND padlike AND row_number() OVER (PARTITION BY fs, ep,
    settled IS NULL AND padlike ORDER BY step, slot, rank, row, seq) <= largest AS pad
  FROM early
), doubtful AS (
  -- READING: "as many as are missing": first those that would be skipped, then a lost rank's.
  SELECT *, settled IS NULL AND NOT coalesce(pad, false) AND (passed OR rank_lost) AS open,
         row_number() OVER (PARTITION BY settled IS NULL AND NOT coalesce(pad, false)
           AND (passed OR rank_lost) ORDER BY passed DESC, step, slot, rank, row, seq) AS place
  FROM padded_
)
SELECT d.id, d.key, d.ep, d.sid, CASE
  WHEN settled IS NOT NULL THEN settled
  WHEN coalesce(pad, false) THEN 'repeat-missing'
  WHEN passed AND sampled.yes THEN 'undecided'
  WHEN open AND d.place <= (SELECT coalesce(max(missing), 0) FROM through) THEN 'undecided'
  WHEN passed THEN 'skipped' ELSE 'pending' END AS outcome
FROM doubtful d, sampled;

-- Order: matched minus the longest non-decreasing run of reference steps along resumed steps
-- (patience: one tail per length; within a step any order is right).
CREATE OR REPLACE TEMP TABLE disorder AS
SELECT count(*) - coalesce(len(list_reduce(list([ref_step] ORDER BY step, ref_step),
  lambda tails, x: tails[1:len(list_filter(tails, lambda t: t <= x[1]))] || x
    || tails[len(list_filter(tails, lambda t: t <= x[1])) + 2:])), 0) AS records
-- Decision: without what a reset, reshuffle or blend was declared for.
FROM resumed WHERE outcome IN ('in-place', 'moved') AND NOT anew;

-- Positions: a line of evidence of its own, counted in sequences.
-- READING: present where every committed and resumed record has one; `first` is the smallest of
-- the first resumed step; holes lie between `expected` and the frontier (the largest of the steps'
-- smallest new positions), declared ones and those of void tries left out.
CREATE OR REPLACE TEMP TABLE position_ AS
WITH have AS (
  SELECT (SELECT count(*) > 0 AND count(pos) = count(*) FROM res)
     AND (SELECT count(pos) = count(*) AND (count(*) > 0 OR getvariable('c') = 0) FROM com)
     -- Decision: and null after a declared reset.
     AND NOT EXISTS (FROM declared WHERE kind = 'reset') AS here,
     coalesce((SELECT max(pos) FROM com) + 1, 0) AS expected,
     (SELECT min(pos) FROM res WHERE step = (SELECT min(step) FROM res)) AS first
), seqs AS (
  SELECT 0 AS phase, min(step) AS step, pos, min(slot) AS slot, attempt, rank, row, try
  FROM com GROUP BY pos, attempt, rank, com.step, com.slot, row, try
  UNION ALL
  SELECT 1, min(step), pos, min(slot), attempt, rank, row, try
  FROM res WHERE NOT void GROUP BY pos, attempt, rank, res.step, res.slot, row, try
), again AS (
  SELECT count(*) AS repeated FROM (
    SELECT phase, row_number() OVER (PARTITION BY pos ORDER BY phase, step, slot, rank, row) AS n
    FROM seqs) WHERE phase = 1 AND n > 1
), place AS (
  SELECT step, min(pos) AS place FROM res
  WHERE pos NOT IN (SELECT pos FROM com WHERE pos IS NOT NULL) GROUP BY step
), hole AS (
  SELECT greatest(coalesce(m.f - h.expected, 0), 0) - (
    SELECT count(DISTINCT pos) FROM (SELECT pos FROM res UNION ALL
      SELECT pos FROM w WHERE win = 'cvd' UNION ALL
      SELECT unnest(positions) FROM declared WHERE positions IS NOT NULL)
    WHERE pos >= h.expected AND pos < m.f) AS holes
  FROM have h, (SELECT max(place) AS f FROM place) m
), known AS (
  SELECT DISTINCT pos, sid, fs, f0, f1 FROM w
  WHERE win IN ('com', 'cvd', 'ref', 'rol') AND pos IS NOT NULL
), drifted AS (
  SELECT count(DISTINCT r.pos) AS drift FROM res r
  WHERE r.pos IN (SELECT pos FROM known) AND NOT EXISTS (FROM known k WHERE k.pos = r.pos
    AND k.sid = r.sid AND k.fs IS NOT DISTINCT FROM r.fs AND k.f0 IS NOT DISTINCT FROM r.f0
    AND k.f1 IS NOT DISTINCT FROM r.f1)
)
SELECT here, expected, first, first - expected AS shift, repeated, holes, drift
FROM have, again, hole, drifted;

-- What is known to be missing in the resumed window and before it.
CREATE OR REPLACE TEMP TABLE lacking AS
SELECT (SELECT coalesce(max(missing), 0) FROM through)
     + (SELECT coalesce(sum(i.missing_records), 0) FROM stepinfo i JOIN seg s
        USING (side, attempt) WHERE side = 'run' AND i.step > s.lo AND i.step <= s.hi) AS records;

-- Later epochs: one that is over after the resume lacks a global batch or more, against the first
-- whole epoch before C, else against dataset_samples.
-- READING: counts, not sets (an epoch need not be the whole data set); the epoch under way at C
-- is included; missing, declared and formerly skipped samples are forgiven. Repeats beyond padding
-- need no rule of their own: with the epoch in the identity each is an outcome already.
CREATE OR REPLACE TEMP TABLE short_epoch AS
WITH seen AS (
  SELECT fs, ep, count(DISTINCT sid) AS ids, count(DISTINCT (sid, f0, f1)) AS spans,
         bool_or(win = 'res') AS here FROM w
  WHERE win IN ('com', 'cvd', 'res') AND ep IS NOT NULL GROUP BY ALL
), began AS (
  -- the epoch must have begun inside the ledger
  SELECT fs, CASE WHEN (SELECT min(step) FROM w WHERE win IN ('com', 'cvd', 'res')) > 1
                  THEN min(ep) END AS cut FROM seen GROUP BY fs
), whole AS (
  SELECT s.fs, arg_min(s.ids, s.ep) AS ids FROM seen s
  JOIN ended e ON e.s = 'com' AND e.ep = s.ep AND e.fs IS NOT DISTINCT FROM s.fs
  WHERE e.last_step <= getvariable('c') AND NOT s.here
    AND s.ep IS DISTINCT FROM (SELECT b.cut FROM began b WHERE b.fs IS NOT DISTINCT FROM s.fs)
  GROUP BY s.fs
), pardon AS (
  SELECT (SELECT records FROM lacking) + (SELECT count(*) FROM former)
       + (SELECT count(DISTINCT id) FROM (SELECT unnest(ids) AS id FROM act))
       + (SELECT count(DISTINCT pos) FROM (SELECT unnest(positions) AS pos FROM act)) AS records
), anew AS (
  -- a reset, reshuffle or blend leaves its sources' epochs without a promise
  SELECT sources FROM act WHERE ids IS NULL AND positions IS NULL
)
SELECT s.ep, greatest(coalesce(b.ids - s.ids, h.n - greatest(s.ids, s.spans), 0)
                      - pardon.records, 0) AS missing
FROM seen s JOIN ended e ON e.s = 'res' AND e.ep = s.ep AND e.fs IS NOT DISTINCT FROM s.fs
JOIN shape h ON h.side = 'run' AND h.attempt = getvariable('attempt')
LEFT JOIN whole b ON b.fs IS NOT DISTINCT FROM s.fs
CROSS JOIN pardon CROSS JOIN sampled
WHERE s.here AND NOT sampled.yes AND NOT EXISTS (
    FROM anew WHERE sources IS NULL OR s.fs IS NULL OR list_contains(sources, s.fs))
  AND s.ep IS DISTINCT FROM (SELECT g.cut FROM began g WHERE g.fs IS NOT DISTINCT FROM s.fs)
  AND coalesce(b.ids - s.ids, h.n - greatest(s.ids, s.spans), 0) - pardon.records
      >= h.w * h.b * h.a;

-- What an earlier resume skipped is not blamed on a later one.
INSERT INTO former SELECT sid FROM expected WHERE outcome = 'skipped';

-- The facts of the resume that decide a verdict.
CREATE OR REPLACE TEMP TABLE facts AS
WITH t AS (SELECT * FROM att WHERE side = 'run' AND attempt = getvariable('attempt')),
r AS (
  SELECT count(*) FILTER (outcome = 'replayed') AS replayed,
         count(*) FILTER (outcome IN ('replayed', 'duplicated', 'unexpected')) AS bad,
         count(*) FILTER (outcome = 'moved') AS moved,
         count(*) FILTER (outcome = 'repeat-unexplained') AS unexplained FROM resumed
), x AS (
  SELECT count(*) FILTER (outcome = 'skipped') AS skipped,
         count(*) FILTER (outcome = 'undecided') AS undecided, count(*) AS records FROM expected
), micro AS (
  -- whole reference micro-batches of the rank that has fewest
  SELECT min(n) AS n FROM (SELECT rank, count(DISTINCT (step, slot)) AS n FROM ref
    WHERE step <= (SELECT through FROM wholeref) GROUP BY rank)
), loader AS (
  -- READING: the larger of the two loaders, before and after the resume.
  SELECT coalesce(max(workers), 0) AS n FROM att, kind
  WHERE (side = 'run' AND attempt = getvariable('attempt'))
     OR CASE WHEN kind.reference = 'control' THEN side = 'control'
             ELSE side = 'run' AND attempt = getvariable('parent') END
), darklane AS (
  -- READING: where positions prove the stream, a rank that had merely not come so far is excused.
  SELECT count(*) > 0 AND EXISTS (FROM ref) AS yes,
         coalesce(bool_or(p.missing), false) AND EXISTS (FROM ref) AS gone
  FROM part p JOIN refstep f USING (side, attempt, step)
  WHERE p.logged AND p.rank NOT IN (SELECT rank FROM ref)
), steps AS (
  SELECT EXISTS (FROM stepinfo WHERE side = 'run' AND attempt = getvariable('attempt')
                 AND step > getvariable('c') AND committed) AS committed,
         EXISTS (FROM through WHERE whole) AS whole,
         (SELECT through FROM wholeref) > getvariable('c') AS reference
), mixed AS (
  SELECT bool_or(mixed) AS yes FROM att WHERE side = 'run'
    AND attempt IN (getvariable('attempt'), getvariable('parent'))
), first_record AS (
  SELECT coalesce(bool_or(step <= getvariable('c')), false) AS mismatch FROM (
    SELECT step FROM rec WHERE side = 'run' AND attempt = getvariable('attempt')
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY seq) = 1)
)
SELECT r.*, x.*, steps.*, disorder.records AS disorder, mixed.yes AS mixed, mismatch,
       sampled.yes AS sampled, darklane.yes AS dark, darklane.gone AS gone, t.ended,
       coalesce(micro.n, 0) < loader.n AS few_micro,
       p.here AS positions,
       p.here AND (p.repeated > 0 OR p.drift > 0
         OR (NOT sampled.yes AND p.holes > (SELECT records FROM lacking))) AS position_fault,
       p.here AND p.repeated = 0 AND p.drift = 0 AND p.holes = 0 AND p.shift >= 0
         AND NOT sampled.yes AND (SELECT records FROM lacking) = 0 AS position_proof,
       (SELECT count(*) FROM short_epoch) AS short_epochs
FROM r, x, steps, disorder, mixed, first_record, sampled, darklane, t, micro, loader, position_ p;

-- Verdict: broken beats unproven beats continuous; without a sure attempt and C nothing is proven.
CREATE OR REPLACE TEMP TABLE verdict AS
SELECT *, CASE
    WHEN mixed OR mismatch THEN 'unproven'
    WHEN bad > 0 OR skipped > 0 OR position_fault OR short_epochs > 0
      OR (disorder > 0 AND getvariable('order_mode') <> 'none')
      OR (moved > 0 AND getvariable('order_mode') = 'step')
      OR (NOT committed AND ended AND records > 0) THEN 'broken'
    WHEN NOT committed OR NOT whole OR undecided > 0 OR unexplained > 0 OR sampled
      OR gone OR (dark AND NOT position_proof)
      OR (NOT reference AND NOT position_proof) OR (few_micro AND NOT positions) THEN 'unproven'
    ELSE 'continuous' END AS verdict,
  -- "skipped minus replayed while nothing is out of order and at most one of the two occurs"
  CASE WHEN reference AND disorder = 0 AND (skipped = 0 OR replayed = 0)
       THEN skipped - replayed END AS shift
FROM facts;
