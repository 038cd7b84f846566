CREATE TABLE nexmark_q7 (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  `dateTime` TIMESTAMP(3),
  extra VARCHAR
) WITH ('connector' = 'blackhole');

INSERT INTO nexmark_q7
SELECT b.auction, b.bidder, b.price, b.`dateTime`, b.extra
FROM bid b
JOIN (
  SELECT max(price) AS highest, window_end AS until
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
) w
ON b.price = w.highest AND b.`dateTime` BETWEEN w.until - INTERVAL '10' SECOND AND w.until;
