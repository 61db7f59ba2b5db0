-- LIKE on words that occur in ClickBench's `hits`, which '%google%' does not: variants of its queries 21 to 24, and what its
-- others don't ask: prefixes, suffixes, several words, equality of long strings. The table is `hits`.

-- 1 to 4: a word that few rows have, one that many have, in URLs and in titles.
SELECT count(*) FROM hits WHERE "URL" LIKE '%booklyattion%';
SELECT count(*) FROM hits WHERE "URL" LIKE '%product%';
SELECT count(*) FROM hits WHERE "Title" LIKE '%скейтшоп%';
SELECT count(*) FROM hits WHERE "Title" LIKE '%Яндекс%';

-- 5 to 7: what is found is grouped, or sorted and handed out whole.
SELECT "SearchPhrase", min("URL"), count(*) AS c FROM hits WHERE "URL" LIKE '%currency%' AND "SearchPhrase" <> '' GROUP BY "SearchPhrase" ORDER BY c DESC LIMIT 10;
SELECT "SearchPhrase", min("URL"), min("Title"), count(*) AS c, count(DISTINCT "UserID") FROM hits WHERE "Title" LIKE '%Погода%' AND "URL" NOT LIKE '%catalog%' AND "SearchPhrase" <> '' GROUP BY "SearchPhrase" ORDER BY c DESC LIMIT 10;
SELECT * FROM hits WHERE "URL" LIKE '%booklyattion%' ORDER BY "EventTime" LIMIT 10;

-- 8 to 11: prefix, suffix, words in order, no matter which case.
SELECT count(*) FROM hits WHERE "URL" LIKE 'https://produkty%';
SELECT count(*) FROM hits WHERE "URL" LIKE '%.html';
SELECT count(*) FROM hits WHERE "Referer" LIKE '%tambov%yandsearch%';
SELECT count(*) FROM hits WHERE "SearchPhrase" ILIKE '%СМОТРЕТЬ%';

-- 12 to 14: conditions on several long columns, of which few rows pass all.
SELECT "Title", "URL", count(*) AS c FROM hits WHERE "Title" LIKE '%онлайн%' AND "URL" LIKE '%catalog%' AND "Referer" LIKE '%search%' GROUP BY "Title", "URL" ORDER BY c DESC LIMIT 10;
SELECT * FROM hits WHERE "Title" LIKE '%Погода%' AND "URL" LIKE '%photo%' AND "Referer" <> '' ORDER BY "EventTime" LIMIT 10;
SELECT "URL", "Title", "Referer" FROM hits WHERE "Title" = (SELECT max("Title") FROM hits WHERE "CounterID" = 62) AND "URL" <> '' ORDER BY "EventTime" LIMIT 10;
