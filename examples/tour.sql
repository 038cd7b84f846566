-- Five minutes with Thalweg. Run it from the top of the repository:
--   cargo run --release --locked -p thalweg -- --no-rc -f examples/tour.sql

-- A file is a table. Types come from its content.
SELECT * FROM 'examples/rivers/stations.csv' ORDER BY km_from_mouth LIMIT 3;
DESCRIBE 'examples/rivers/readings.csv';

-- Name what you use often.
CREATE VIEW stations AS SELECT * FROM 'examples/rivers/stations.csv';
CREATE VIEW readings AS SELECT * FROM 'examples/rivers/readings.csv';

-- Join, group, order.
SELECT river, count(*) AS readings, round(avg(level_cm), 1) AS level, max(flow_m3s) AS peak_flow
FROM readings JOIN stations USING (station)
GROUP BY river
ORDER BY river;

-- When did the flood crest pass each telemetric station?
SELECT name, taken_at, level_cm
FROM (SELECT *, row_number() OVER (PARTITION BY station ORDER BY level_cm DESC, taken_at) AS place FROM readings) r
JOIN stations USING (station)
WHERE place = 1 AND telemetry
ORDER BY taken_at, name;

-- Lists from JSON, unnested.
SELECT tag, count(*) AS notes
FROM (SELECT unnest(tags) AS tag FROM 'examples/rivers/notes.ndjson')
GROUP BY tag
ORDER BY notes DESC, tag;

-- How would it be run, on two threads?
SET threads = 2;
EXPLAIN SELECT river, avg(level_cm) FROM readings JOIN stations USING (station) GROUP BY river;
