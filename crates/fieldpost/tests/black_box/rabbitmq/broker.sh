#!/bin/sh
# A private RabbitMQ on loopback, for tests: broker.sh DIR AMQP_PORT AMQPS_PORT DIST_PORT EPMD_PORT
#
# DIR holds the certificate and the key that it shows, cert.pem and key.pem.
#
# Each line on standard input is an order: "kill" ends it as a power cut would, "start" starts it again on the same data, "impatient"
# makes it close channels that leave a message unacknowledged for half a second, "patient" for half an hour, as it is by default. When
# standard input ends, because the tests are over or dead, it is killed and DIR removed. Ends only processes that it
# started, by their ids. As root it becomes the user that Debian's package made: the data are that user's.
set -eu

dir=$1 amqp_port=$2 amqps_port=$3 dist_port=$4 epmd_port=$5
program=/usr/lib/rabbitmq/bin/rabbitmq-server

as_owner() {
    if [ "$(id -u)" -eq 0 ]; then
        exec setpriv --reuid=rabbitmq --regid=rabbitmq --init-groups "$@"
    fi
    exec "$@"
}

prepare() {
    printf 'a-cookie-of-this-directory' >"$dir/.erlang.cookie"
    chmod 400 "$dir/.erlang.cookie"
    echo '[].' >"$dir/enabled_plugins"
    : >"$dir/rabbitmq-env.conf"
    cat >"$dir/rabbitmq.conf" <<-END
	listeners.tcp.1 = 127.0.0.1:$amqp_port
	listeners.ssl.1 = 127.0.0.1:$amqps_port
	ssl_options.cacertfile = $dir/cert.pem
	ssl_options.certfile = $dir/cert.pem
	ssl_options.keyfile = $dir/key.pem
	ssl_options.verify = verify_none
	disk_free_limit.absolute = 50MB
	log.console = true
	log.console.level = info
	log.console.use_colors = off
	log.file = false
	END
    if [ "$(id -u)" -eq 0 ]; then chown -R rabbitmq:rabbitmq "$dir"; fi
}

# Names on loopback only, and no spinning: the tests and the server under test want the cores.
erlang_args='-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none'

start() {
    # With RUNNING_UNDER_SYSTEMD the script becomes the broker, so that the id we know is the broker's.
    as_owner env HOME="$dir" ERL_EPMD_PORT="$epmd_port" ERL_EPMD_ADDRESS=127.0.0.1 ERL_CRASH_DUMP_BYTES=0 \
        RABBITMQ_NODENAME="fieldpost-test-$amqp_port@localhost" RABBITMQ_DIST_PORT="$dist_port" \
        RABBITMQ_CONF_ENV_FILE="$dir/rabbitmq-env.conf" RABBITMQ_CONFIG_FILE="$dir/rabbitmq.conf" \
        RABBITMQ_ADVANCED_CONFIG_FILE="$dir/advanced.config" RABBITMQ_ENABLED_PLUGINS_FILE="$dir/enabled_plugins" \
        RABBITMQ_MNESIA_BASE="$dir/mnesia" RABBITMQ_LOG_BASE="$dir/log" RABBITMQ_PID_FILE="$dir/broker.pid" \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="$erlang_args" RUNNING_UNDER_SYSTEMD=true \
        "$program" >>"$dir/broker.log" 2>&1 &
    broker=$!
}

# Of channels that are opened from now on.
wait_for_acks() { # wait_for_acks MILLISECONDS LOOKING_EVERY
    (as_owner env HOME="$dir" ERL_EPMD_PORT="$epmd_port" RABBITMQ_CONF_ENV_FILE="$dir/rabbitmq-env.conf" \
        /usr/lib/rabbitmq/bin/rabbitmqctl --node "fieldpost-test-$amqp_port@localhost" eval \
        "application:set_env(rabbit, consumer_timeout, $1), application:set_env(rabbit, channel_tick_interval, $2).") \
        >>"$dir/ctl.log" 2>&1
}

stop() { # stop PID
    kill -9 "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

cd "$dir"
prepare
as_owner env ERL_EPMD_ADDRESS=127.0.0.1 epmd -port "$epmd_port" >>"$dir/epmd.log" 2>&1 &
names=$!
start
while read -r order; do
    case $order in
    kill) stop "$broker" ;;
    start) start ;;
    impatient) wait_for_acks 500 100 ;;
    patient) wait_for_acks 1800000 60000 ;;
    esac
    echo "$order"
done
stop "$broker"
stop "$names"
cd /
rm -rf "$dir"
