-- Pages by the hour (UTC) in which they were finished, and how many of them failed.
SELECT date_trunc('hour', finished_at) AS hour, count(*) AS pages,
       round(count(*) / greatest(0.001, epoch(max(finished_at) - min(coalesce(started_at, finished_at)))), 3)
         AS pages_per_s_from_first_to_last,
       count(*) FILTER (WHERE status = 'failed') AS failed, sum(output_tokens) AS output_tokens,
       count(DISTINCT run_id) AS runs
FROM pages
GROUP BY hour
ORDER BY hour
