#!/bin/sh
# A private PostgreSQL on loopback, for tests: server.sh DIR PROGRAMS PORT [SETTING=VALUE ..]
#
# PROGRAMS is the folder of initdb and pg_ctl. DIR holds the certificate and the key that it shows, cert.pem and key.pem, and the
# password of its superuser `postgres`, password.
#
# Says "start" once it accepts connections. Each line on standard input is an order, repeated on standard output when it is done: "kill"
# ends it and all its processes as a power cut would, "start" starts it again on the same data. When standard input ends, because the
# tests are over or dead, it is killed and DIR removed. Ends only processes that it started, by their ids. PostgreSQL refuses to run as
# root: then it becomes the user that Debian's package made.
set -eu

dir=$1 programs=$2 port=$3
shift 3

as_owner() {
    if [ "$(id -u)" -eq 0 ]; then
        setpriv --reuid=postgres --regid=postgres --init-groups "$@"
    else
        "$@"
    fi
}

prepare() {
    chmod 600 "$dir/key.pem"
    if [ "$(id -u)" -eq 0 ]; then chown -R postgres:postgres "$dir"; fi
    as_owner "$programs/initdb" --pgdata="$dir/data" --username=postgres --pwfile="$dir/password" --auth=scram-sha-256 \
        --encoding=UTF8 --locale=C.UTF-8 --no-sync >>"$dir/initdb.log" 2>&1
    cat >>"$dir/data/postgresql.conf" <<-END
	listen_addresses = '127.0.0.1'
	port = $port
	unix_socket_directories = ''
	ssl = on
	ssl_cert_file = '$dir/cert.pem'
	ssl_key_file = '$dir/key.pem'
	max_connections = 200
	shared_buffers = 32MB
	END
    for setting in "$@"; do echo "${setting%%=*} = '${setting#*=}'"; done >>"$dir/data/postgresql.conf"
}

start() {
    as_owner "$programs/pg_ctl" start --wait --timeout=60 --silent --pgdata="$dir/data" --log="$dir/server.log"
    server=$(head -n 1 "$dir/data/postmaster.pid")
}

# Its own processes outlive it for a moment, and hold its memory: a new one would not start.
stop() {
    processes="$server $(cat "/proc/$server/task/$server/children" 2>/dev/null || true)"
    for process in $processes; do kill -9 "$process" 2>/dev/null || true; done
    for process in $processes; do
        while [ -e "/proc/$process/exe" ]; do sleep 0.02; done
    done
    rm -f "$dir/data/postmaster.pid"
}

cd "$dir"
prepare "$@"
start
echo start
while read -r order; do
    case $order in
    kill) stop ;;
    start) start ;;
    esac
    echo "$order"
done
stop
cd /
rm -rf "$dir"
