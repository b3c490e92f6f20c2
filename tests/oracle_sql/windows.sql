--: resume
-- One resume: variables k, parent, attempt, c, last (end of the window), newest (it has none),
-- side_ref, order_mode.
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
-- READING: what one side is known to lack (missing or unlogged) is no difference; void tries do not
-- count; repeats are forgiven in the last step of an epoch that is over in that stream.
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
  SELECT s, fs, fe, max((step, slot, rank, row, seq)) AS ends,
         count(DISTINCT sid) AS distinct_ids
  FROM x WHERE fe IS NOT NULL GROUP BY ALL
), over_ AS (
  SELECT f.s, f.fs, f.fe, f.ends FROM final f
  WHERE EXISTS (FROM x WHERE x.s = f.s AND x.fs IS NOT DISTINCT FROM f.fs AND x.fe > f.fe
                AND (x.step, x.slot, x.rank, x.row, x.seq) > f.ends)
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
), gap AS (
  -- what either side has more often in a step than the other
  SELECT coalesce(a.step, b.step) AS step,
         sum(greatest(coalesce(a.times, 0) - coalesce(b.times, 0), 0)) AS com,
         sum(greatest(coalesce(b.times, 0) - coalesce(a.times, 0), 0)) AS ctl
  FROM (FROM bare WHERE s = 'com') a FULL JOIN (FROM bare WHERE s = 'ctl') b
    ON a.step = b.step AND a.sid = b.sid AND a.fs IS NOT DISTINCT FROM b.fs
   AND a.fe IS NOT DISTINCT FROM b.fe AND a.f0 IS NOT DISTINCT FROM b.f0
   AND a.f1 IS NOT DISTINCT FROM b.f1
  GROUP BY ALL
), lack AS (
  SELECT i.side, i.step, CASE WHEN unlogged > 0 THEN 'infinity'::DOUBLE
                              ELSE missing_records END AS records
  FROM stepinfo i JOIN seg s USING (side, attempt)
  WHERE i.step > s.lo AND (s.hi IS NULL OR i.step <= s.hi)
)
SELECT getvariable('side_ref') = 'control' AND coalesce(bool_or(
  g.com > coalesce(there.records, 0) OR g.ctl > coalesce(here.records, 0)), false) AS yes
FROM gap g LEFT JOIN lack here ON here.side = 'run' AND here.step = g.step
LEFT JOIN lack there ON there.side = 'control' AND there.step = g.step;

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
  WHERE NOT i.committed AND getvariable('newest')
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
-- the window, or `att`, the attempt (for `com` also what its last attempt wrote after C).
CREATE OR REPLACE TEMP TABLE ended AS
WITH own AS (
  SELECT 'res' AS s, fs, ep, step, slot, rank, row, seq, sid FROM res
  UNION ALL SELECT 'ref', fs, ep, step, slot, rank, row, seq, sid FROM ref
  UNION ALL SELECT 'com', fs, ep, step, slot, rank, row, seq, sid FROM w
  WHERE win IN ('com', 'cvd', 'rol')
  UNION ALL
  -- att: the whole resumed attempt, the steps that the crash cut included
  SELECT 'att', CASE WHEN (SELECT count(fs) > 0 FROM res) THEN src END,
         CASE WHEN (SELECT count(ep) > 0 FROM res) THEN epoch END,
         step, slot, rank, row, seq, sid FROM rec
  WHERE side = 'run' AND attempt = getvariable('attempt') AND step > getvariable('c')
), met AS (
  SELECT s, fs, ep, (step, slot, rank, row, seq) AS place, sid, true AS mine FROM own WHERE ep IS NOT NULL
  UNION ALL
  SELECT v.s, w.fs, w.ep, (w.step, w.slot, w.rank, w.row, w.seq), w.sid, false
  FROM w, (VALUES ('res'), ('ref'), ('att')) v(s) WHERE w.win IN ('com', 'cvd') AND w.ep IS NOT NULL
  UNION ALL
  -- an epoch that the resumed attempt leapt over is over too
  SELECT 'res', fs, ep, (step, slot, rank, row, seq), NULL, false FROM ref WHERE ep IS NOT NULL
), epochs AS (
  SELECT s, fs, ep, max(place) FILTER (mine) AS ends, count(DISTINCT sid) AS distinct_ids
  FROM met GROUP BY ALL
), size AS (
  SELECT unnest(['res', 'att']) AS s, n FROM att
  WHERE side = 'run' AND attempt = getvariable('attempt')
  UNION ALL SELECT 'com', n FROM att WHERE side = 'run' AND attempt = getvariable('parent')
  UNION ALL SELECT 'ref', max(n) FROM att, kind
  WHERE CASE WHEN kind.reference = 'control' THEN side = 'control'
             ELSE side = 'run' AND attempt = getvariable('parent') END
), furthest AS (
  SELECT s, fs, ep, max(place) AS place FROM met WHERE mine GROUP BY ALL
)
SELECT e.s, e.fs, e.ep, (e.ends)[1] AS last_step, e.distinct_ids FROM epochs e
LEFT JOIN size z USING (s)
WHERE coalesce(e.distinct_ids >= z.n, false)
   OR EXISTS (FROM furthest f WHERE f.s = e.s AND f.fs IS NOT DISTINCT FROM e.fs AND f.ep > e.ep
              AND (e.ends IS NULL OR f.place > e.ends));

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
LEFT JOIN ended e ON e.s = CASE n.s WHEN 'res' THEN 'att' ELSE n.s END AND e.ep = n.ep AND e.fs IS NOT DISTINCT FROM n.fs;

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

