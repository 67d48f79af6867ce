-- The documents that took the engines longest: seconds of their batches, shared out among the pages of each batch.
-- $limit = 20: how many
SELECT p.uri, count(*) AS pages, round(sum(b.total_s / b.batch_size), 3) AS engine_s,
       round(sum(b.total_s / b.batch_size) / count(*), 3) AS engine_s_per_page, sum(p.output_tokens) AS output_tokens
FROM pages AS p JOIN batches AS b ON p.run_id = b.run_id AND p.batch_id = b.batch_id
WHERE b.total_s IS NOT NULL
GROUP BY p.uri
ORDER BY engine_s DESC, p.uri
LIMIT CAST($limit AS BIGINT)
