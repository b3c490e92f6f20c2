--: outcomes
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
  -- Decision: after a restart with other ranks, micro-batches or slots, what is padded may be the
  -- rest of the epoch, not the whole.
  SELECT f.fs, f.ep, f.step, f.over_, f.repeats,
         CASE WHEN h.n IS NOT NULL THEN list_concat(pads(h.n, h.w, h.b, h.a, h.ds), CASE WHEN EXISTS (
             FROM shape s JOIN com USING (side, attempt)
             WHERE (s.w, s.b, s.a) IS DISTINCT FROM (h.w, h.b, h.a))
           THEN pads(h.n - (SELECT count(DISTINCT com.key) FROM com WHERE com.ep = f.ep
                            AND com.fs IS NOT DISTINCT FROM f.fs), h.w, h.b, h.a, h.ds) END) END
         AS budgets,
         EXISTS (FROM shape s JOIN com USING (side, attempt)
                 WHERE (s.w, s.b, s.a) IS DISTINCT FROM (h.w, h.b, h.a)) AS redealt,
         CASE WHEN h.ds THEN h.w - 1 ELSE h.w * h.b * h.a - 1 END AS most,
         i.missing_records + i.unlogged_records AS dark
  FROM found f JOIN shape h ON h.side = f.side AND h.attempt = f.attempt
  JOIN resstep i ON i.step = f.step
)
SELECT fs, ep, step, over_ AND coalesce(list_contains(budgets, repeats), false) AS exact,
       over_ AND (budgets IS NULL OR len(list_filter(budgets,
         lambda n: n > repeats AND n <= repeats + dark)) > 0) AS unknown,
       NOT over_ AND budgets IS NULL AND repeats <= most AS perhaps, redealt
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
  -- Decision: a reference that is dealt otherwise pads otherwise, and vouches for no end.
  WHEN u.repeat AND d.perhaps AND (d.redealt OR NOT t.covers) THEN 'repeat-unexplained'
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
