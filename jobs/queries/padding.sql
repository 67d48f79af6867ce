-- Padding and idle slots by run and bucket, and what closed the batches.
SELECT run_id, bucket, sum(batch_size) AS pages, count(*) AS batches,
       round(100.0 * sum(padded_tokens) / greatest(1, sum(length_sum) + sum(padded_tokens)), 2) AS padding_percent,
       round(100.0 * sum(idle_ratio * batch_size) FILTER (WHERE idle_ratio IS NOT NULL)
             / sum(batch_size) FILTER (WHERE idle_ratio IS NOT NULL), 2) AS idle_percent,
       round(sum(batch_size) / sum(total_s), 3) AS pages_per_engine_s, mode(closed_by) AS mostly_closed_by
FROM batches
GROUP BY run_id, bucket
ORDER BY run_id, bucket
