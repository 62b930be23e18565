#!/bin/sh
# Run once by PostgreSQL's image, when it has made the cluster: the workers' role with a password, so that they need not
# know the owner's. `engramq migrate` gives it its rights.
set -eu
psql --set=ON_ERROR_STOP=1 --set=password="$WORKER_PASSWORD" --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" <<'SQL'
create role engramq_worker login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password :'password';
SQL
