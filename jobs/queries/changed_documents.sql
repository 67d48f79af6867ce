-- Documents whose bytes have changed since they were first read: how often, and when that was seen last.
WITH seen AS (
  SELECT d.uri, d.document_id, min(d.run_id) AS run_id, min(r.started_at) AS seen_at
  FROM documents AS d LEFT JOIN runs AS r ON d.run_id = r.run_id
  WHERE d.document_id IS NOT NULL
  GROUP BY d.uri, d.document_id
)
SELECT uri, count(*) AS versions, min(run_id) AS first_run, max(run_id) AS last_run, max(seen_at) AS changed_at
FROM seen
GROUP BY uri
HAVING count(*) > 1
ORDER BY last_run DESC, uri
