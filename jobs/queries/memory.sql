-- Memory and pages a second by bucket and size of batch: what a larger batch costs and gives.
SELECT bucket, batch_size, count(*) AS batches, round(median(pages_per_s), 3) AS median_pages_per_s,
       round(max(gpu_memory_allocated_bytes) / 1048576.0, 1) AS gpu_allocated_mib,
       round(max(gpu_memory_reserved_bytes) / 1048576.0, 1) AS gpu_reserved_mib,
       round(max(host_memory_bytes) / 1048576.0, 1) AS host_mib, sum(oom_splits) AS oom_splits
FROM batches
GROUP BY bucket, batch_size
ORDER BY bucket, batch_size
