-- Documents that are no longer there, those that were missed last first: how many pages of them are kept.
-- $limit = 50: how many
WITH newest AS (
  SELECT uri, run_id, error_code, row_number() OVER (PARTITION BY uri ORDER BY run_id DESC) AS age FROM documents
), kept AS (
  SELECT uri, count(*) AS pages, max(run_id) AS last_read FROM pages GROUP BY uri
)
SELECT newest.uri, newest.run_id AS missed_by, coalesce(kept.pages, 0) AS rows_kept, kept.last_read
FROM newest LEFT JOIN kept ON newest.uri = kept.uri
WHERE newest.age = 1 AND newest.error_code = 'vanished' AND (kept.last_read IS NULL OR kept.last_read < newest.run_id)
ORDER BY newest.run_id DESC, newest.uri
LIMIT CAST($limit AS BIGINT)
