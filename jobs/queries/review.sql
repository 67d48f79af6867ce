-- Pages that a person should look at: those read with little confidence, cut short or repeating themselves.
-- $below = 0.9: the confidence from which on a page is trusted
-- $limit = 50: how many
SELECT uri, page_index + 1 AS page, status, round(confidence, 3) AS confidence, finish_reason, left(text, 80) AS text
FROM latest
WHERE status IN ('truncated', 'repeated') OR (status = 'ok' AND confidence < CAST($below AS DOUBLE))
ORDER BY status = 'ok', confidence, uri, page
LIMIT CAST($limit AS BIGINT)
