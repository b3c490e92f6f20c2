--: verdict
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
      SELECT f.pos FROM ref f JOIN expected USING (id) WHERE outcome = 'declared' UNION ALL
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
-- Where ranks are sampled, positions give only repeats and drift.
SELECT here, expected, first, first - expected AS shift, repeated,
       CASE WHEN sampled.yes THEN 0 ELSE holes END AS holes, drift
FROM have, again, hole, drifted, sampled;

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
), target AS (
  SELECT s.*, coalesce(b.ids - s.ids,
    -- READING: dataset_samples says nothing about one source of a blend.
    CASE WHEN (SELECT count(DISTINCT coalesce(fs, '')) FROM seen) = 1
         THEN h.n - greatest(s.ids, s.spans) END, 0) - p.records AS missing,
    h.w * h.b * h.a AS batch
  FROM seen s JOIN ended e ON e.s = 'res' AND e.ep = s.ep AND e.fs IS NOT DISTINCT FROM s.fs
  JOIN shape h ON h.side = 'run' AND h.attempt = getvariable('attempt')
  LEFT JOIN whole b ON b.fs IS NOT DISTINCT FROM s.fs
  CROSS JOIN pardon p
)
SELECT s.ep, s.missing FROM target s CROSS JOIN sampled
-- Decision: whatever `drop_last` says, less than one global batch may be dropped.
WHERE s.here AND s.missing >= s.batch AND NOT sampled.yes AND NOT EXISTS (
    FROM anew WHERE sources IS NULL OR s.fs IS NULL OR list_contains(sources, s.fs))
  AND s.ep IS DISTINCT FROM (SELECT g.cut FROM began g WHERE g.fs IS NOT DISTINCT FROM s.fs);

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
       -- READING: holes that missing records could fill are undecided.
       p.here AND p.holes > 0 AS holed,
       p.here AND p.repeated = 0 AND p.drift = 0 AND p.holes = 0 AND p.shift >= 0
         AND NOT sampled.yes AND (SELECT records FROM lacking) = 0
         -- Decision: the last step's smallest place opens no hole, but it proves nothing either:
         -- by the end of the first whole step, and of all before it, every place must have been used.
         AND EXISTS (FROM resstep WHERE whole)
         AND NOT EXISTS (FROM resstep s
           WHERE s.step <= (SELECT min(step) FROM resstep WHERE whole) AND NOT (
             SELECT count(DISTINCT pos) > 0 AND max(pos) - p.expected + 1 = count(DISTINCT pos)
             FROM (SELECT pos FROM res WHERE res.step <= s.step
                   UNION ALL SELECT pos FROM w WHERE win = 'cvd') WHERE pos >= p.expected))
         AS position_proof,
       (SELECT count(*) FROM short_epoch) AS short_epochs,
       -- READING: each record known to be missing may have cost another its right partner.
       CASE getvariable('order_mode') WHEN 'step' THEN r.moved WHEN 'relative' THEN disorder.records
            ELSE 0 END AS strayed,
       (SELECT coalesce(max(missing), 0) FROM through) AS missing
FROM r, x, steps, disorder, mixed, first_record, sampled, darklane, t, micro, loader, position_ p;

-- Verdict: broken beats unproven beats continuous; without a sure attempt and C nothing is proven.
CREATE OR REPLACE TEMP TABLE verdict AS
SELECT *, CASE
    WHEN mixed OR mismatch THEN 'unproven'
    WHEN bad > 0 OR skipped > 0 OR position_fault OR short_epochs > 0
      OR strayed > missing
      OR (NOT committed AND ended AND records > 0) THEN 'broken'
    WHEN NOT committed OR NOT whole OR undecided > 0 OR unexplained > 0 OR sampled
      OR strayed > 0 OR holed OR gone OR (dark AND NOT position_proof)
      OR (NOT reference AND NOT position_proof) OR (few_micro AND NOT positions) THEN 'unproven'
    ELSE 'continuous' END AS verdict,
  -- "skipped minus replayed while nothing is out of order and at most one of the two occurs"
  CASE WHEN reference AND disorder = 0 AND (skipped = 0 OR replayed = 0)
       THEN skipped - replayed END AS shift
FROM facts;
