-- The newest row of every page of every document as it is now; the view `latest` of all other queries.
WITH seen AS (
  SELECT uri, document_id, run_id, COALESCE(error_code, '') = 'vanished' AS is_gone FROM documents
  UNION ALL
  SELECT uri, document_id, run_id, false AS is_gone FROM pages
), newest AS (
  SELECT uri, document_id, is_gone, row_number() OVER (PARTITION BY uri ORDER BY run_id DESC) AS age FROM seen
), ranked AS (
  SELECT pages.*,
         row_number() OVER (
           PARTITION BY pages.uri, pages.page_index
           ORDER BY CASE WHEN pages.error_code = 'not_selected' THEN 1 ELSE 0 END, pages.run_id DESC,
                    pages.finished_at DESC
         ) AS age,
         max(pages.page_index) OVER (PARTITION BY pages.uri) AS last_page
  FROM pages
  JOIN newest ON pages.uri = newest.uri AND newest.age = 1 AND NOT newest.is_gone
             AND COALESCE(pages.document_id, '') = COALESCE(newest.document_id, '')
)
SELECT * EXCLUDE (age, last_page)
FROM ranked
WHERE age = 1 AND (page_index IS NOT NULL OR last_page IS NULL)
