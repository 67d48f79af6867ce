-- Why pages failed: how many for each reason, and one of them to look at.
SELECT error_code, count(*) AS pages, count(DISTINCT uri) AS documents, any_value(error_message) AS example,
       any_value(uri) AS example_uri
FROM latest
WHERE status IN ('failed', 'skipped') AND error_code <> 'not_selected'
GROUP BY error_code
ORDER BY pages DESC, error_code
