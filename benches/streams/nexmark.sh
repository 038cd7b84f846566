#!/usr/bin/env bash
# Nexmark as continuous queries over a CSV file: events for each second of CPU time (user and system).
#
# Usage: nexmark.sh [--events N] [--queries "q0 q1 …"] [--engines "thalweg flink"] [--threads N] [--data DIR] [--set K=V]
#   THALWEG          the program (default target/release/thalweg)
#   NEXMARK_QUERIES  a folder with the queries as published for Flink: q0.sql, q1.sql, …
#   FLINK_HOME       a folder with Flink's lib/ and a class RunSql that runs a script (needed for the engine flink)
#
# The events come from the connector "nexmark" of our own and are written once, as one table with the columns of all three
# kinds of events. Each query writes into a blackhole. A run with an almost empty file tells what starting costs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
events=10000000 queries="q0 q1 q2 q3 q5 q7 q8 q15 q18 q19" engines="thalweg" threads=2 data=target/nexmark settings=()
while (($#)); do
  case $1 in
    --events) events=$2 ;;
    --queries) queries=$2 ;;
    --engines) engines=$2 ;;
    --threads) threads=$2 ;;
    --data) data=$2 ;;
    --set) settings+=(--set "$2") ;;
    *) echo "nexmark.sh: unknown: $1" >&2; exit 2 ;;
  esac
  shift 2
done
thalweg=${THALWEG:-target/release/thalweg}
mkdir -p "$data"

# The file of some number of events, written if it is not there.
events_file() {
  local file=$data/events-$1.csv
  if [[ ! -f $file ]]; then
    "$thalweg" --no-rc --threads 1 <<SQL >&2
CREATE TABLE events WITH (connector = 'nexmark', 'events.num' = '$1');
COPY (SELECT event_type,
    person.id, person.name, person."emailAddress", person."creditCard", person.city, person.state, person.extra,
    auction.id, auction."itemName", auction.description, auction."initialBid", auction.reserve, auction.expires,
    auction.seller, auction.category, auction.extra,
    bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.extra, "dateTime" FROM events)
  TO '$file.part' (FORMAT csv, HEADER false);
SQL
    mv "$file.part" "$file"
  fi
  echo "$file"
}

# Tables and views over a file, in the dialect that both engines read; $2 are more options of the file.
tables() {
  cat <<SQL
CREATE TABLE nexmark (
  event_type INT,
  p_id BIGINT, p_name VARCHAR, p_email VARCHAR, p_card VARCHAR, p_city VARCHAR, p_state VARCHAR, p_extra VARCHAR,
  a_id BIGINT, a_item VARCHAR, a_description VARCHAR, a_initial BIGINT, a_reserve BIGINT, a_expires TIMESTAMP(3),
  a_seller BIGINT, a_category BIGINT, a_extra VARCHAR,
  b_auction BIGINT, b_bidder BIGINT, b_price BIGINT, b_channel VARCHAR, b_url VARCHAR, b_extra VARCHAR,
  \`dateTime\` TIMESTAMP(3),
  WATERMARK FOR \`dateTime\` AS \`dateTime\` - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '$1', 'format' = 'csv'$2);
CREATE VIEW person AS SELECT p_id AS id, p_name AS name, p_email AS \`emailAddress\`, p_card AS \`creditCard\`,
  p_city AS city, p_state AS state, \`dateTime\`, p_extra AS extra FROM nexmark WHERE event_type = 0;
CREATE VIEW auction AS SELECT a_id AS id, a_item AS \`itemName\`, a_description AS description,
  a_initial AS \`initialBid\`, a_reserve AS reserve, \`dateTime\`, a_expires AS expires, a_seller AS seller,
  a_category AS category, a_extra AS extra FROM nexmark WHERE event_type = 1;
CREATE VIEW bid AS SELECT b_auction AS auction, b_bidder AS bidder, b_price AS price, b_channel AS channel, b_url AS url,
  \`dateTime\`, b_extra AS extra FROM nexmark WHERE event_type = 2;
SQL
}

query() {
  if [[ -f $here/$1.sql ]]; then
    cat "$here/$1.sql"
  else
    # A statement ends at a semicolon, also the last one.
    sed -e '$a\' "${NEXMARK_QUERIES:?a folder with the queries}/$1.sql" | grep -v '^ *--'
  fi
  echo
}

# Prints seconds of CPU time and of the clock that a command takes.
measured() {
  /usr/bin/time -f '%U %S %e' -o "$data/time" "$@" >"$data/out" 2>&1 || { tail -5 "$data/out" >&2; echo "- -"; return; }
  tail -1 "$data/time" | awk '{ print $1 + $2, $3 }'
}

run() { # engine, query, file
  local script=$data/$1-$2.sql
  case $1 in
    thalweg)
      { tables "$3" ", 'csv.header' = 'false'"; query "$2"; } >"$script"
      measured "$thalweg" --no-rc --threads "$threads" --set execution.runtime_mode=streaming "${settings[@]}" -f "$script"
      ;;
    flink)
      { tables "file://$(realpath "$3")" ", 'csv.null-literal' = ''"; query "$2"; } >"$script"
      local opens=()
      for package in lang net io nio util time util.concurrent lang.reflect; do
        opens+=("--add-opens=java.base/java.$package=ALL-UNNAMED")
      done
      opens+=(--add-exports=java.base/sun.net.util=ALL-UNNAMED)
      measured java "${opens[@]}" -Xmx4g -cp "${FLINK_HOME:?a folder with lib/}/lib/*:$FLINK_HOME" RunSql "$script" stream
      ;;
  esac
}

file=$(events_file "$events")
small=$(events_file 1000)
printf '%-6s %-8s %12s %10s %16s %18s\n' query engine "CPU s" "clock s" "events/CPU s" "without starting"
for engine in $engines; do
  read -r start _ < <(run "$engine" q0 "$small")
  for query in $queries; do
    read -r cpu clock < <(run "$engine" "$query" "$file")
    awk -v q="$query" -v e="$engine" -v n="$events" -v c="$cpu" -v t="$clock" -v s="$start" 'BEGIN {
      if (c == "-") printf "%-6s %-8s %12s\n", q, e, "failed"
      else printf "%-6s %-8s %12.2f %10.2f %16.0f %18.0f\n", q, e, c, t, n / c, n / (c > s ? c - s : c) }'
  done
done
