-- Pages whose text holds all of some words, wherever they stand; case and accents do not count.
-- $words = : the words, with blanks
-- $limit = 20: how many pages
WITH words AS (
  SELECT unnest(regexp_split_to_array(lower(strip_accents(trim($words))), '\s+')) AS word
), texts AS (
  SELECT uri, page_index, text, lower(strip_accents(text)) AS plain FROM latest WHERE text <> ''
)
SELECT uri, page_index + 1 AS page,
       CAST(sum((length(plain) - length(replace(plain, word, ''))) / length(word)) AS BIGINT) AS hits,
       any_value(substr(text, greatest(1, strpos(plain, word) - 30), 80)) AS around
FROM texts CROSS JOIN words
WHERE word <> ''
GROUP BY uri, page_index
HAVING bool_and(contains(plain, word))
ORDER BY hits DESC, uri, page
LIMIT CAST($limit AS BIGINT)
