-- Variations of ClickBench's query 23 (Q22 counted from 0) whose predicates on long columns are equality, after the one by which
-- Table 2 of LiquidCache's paper tells what its cache's techniques are worth. The table is `hits`; the texts are some that many rows have.

-- 1 and 2: a title, not a certain URL; a URL, not a certain title.
SELECT "SearchPhrase", min("URL"), min("Title"), count(*) AS c, count(DISTINCT "UserID") FROM hits WHERE "Title" = 'Друговицы Бритни Спирс' AND "URL" <> 'https://produkty%2Fproduct' AND "SearchPhrase" <> '' GROUP BY "SearchPhrase" ORDER BY c DESC LIMIT 10;
SELECT "SearchPhrase", min("URL"), min("Title"), count(*) AS c, count(DISTINCT "UserID") FROM hits WHERE "URL" = 'https://produkty/kurortmag' AND "Title" <> 'Друговицы Бритни Спирс' AND "SearchPhrase" <> '' GROUP BY "SearchPhrase" ORDER BY c DESC LIMIT 10;

-- 3: one of several URLs, and where it was come from.
SELECT "SearchPhrase", min("URL"), min("Title"), count(*) AS c, count(DISTINCT "UserID") FROM hits WHERE "URL" IN ('https://produkty%2Fproduct', 'https://produkty/kurortmag', 'https://produkty%2F', 'https://produkty%2Fplata.ru/view') AND "Referer" <> '' AND "SearchPhrase" <> '' GROUP BY "SearchPhrase" ORDER BY c DESC LIMIT 10;

-- 4: three long columns, of each a range or a value.
SELECT "SearchPhrase", min("URL"), min("Title"), count(*) AS c, count(DISTINCT "UserID") FROM hits WHERE "Referer" = 'http://tambov.irr.ru' AND "Title" >= 'А' AND "URL" < 'https' AND "SearchPhrase" <> '' GROUP BY "SearchPhrase" ORDER BY c DESC LIMIT 10;
