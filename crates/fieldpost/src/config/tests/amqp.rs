//! The queue of RabbitMQ.

use super::*;

#[test]
fn a_queue_of_rabbitmq_is_read() {
    let url = "amqp://user:s3cret@rabbit/site";
    let file = format!("[amqp]\nurl = \"{url}\"\nqueue = \"q\"\nprefetch = 65535");
    check(&file, &[], |settings| {
        settings.amqp = AmqpSettings {
            url: Some(AmqpUrl::parse(url).expect("a URL")),
            queue: AmqpQueueName::new("q").expect("a name"),
            prefetch: NonZeroU16::MAX,
        };
    });
    let shown = format!("{:?}", load(&file, &[]).expect("right settings"));
    assert!(shown.contains("amqp://rabbit:5672/site") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn a_wrong_url_of_rabbitmq_is_told_without_its_password() {
    check_refused(
        "amqp.url = \"ampq://user:s3cret@rabbit\"",
        &[],
        "f.toml:1:6: amqp.url: does not begin with amqp:// or amqps://; write a URL such as \
         \"amqp://user:password@host:5672/vhost\" (amqps for TLS, the virtual host / as %2f), or \"\" for off",
    );
    let told = load("", &[("FIELDPOST_AMQP__URL", "amqp://user:s3cret@rabbit/%ff")]).expect_err("not UTF-8");
    assert!(!told.to_string().contains("s3cret"), "{told}");
}

#[test]
fn a_queue_has_a_name_and_a_prefetch_that_bounds() {
    let long = "q".repeat(256);
    for (file, wrong) in [
        ("amqp.queue = \"\"".to_owned(), "has 0 bytes; write a text in quotes of 1 to 255 bytes"),
        (format!("amqp.queue = \"{long}\""), "has 256 bytes; write a text in quotes of 1 to 255 bytes"),
        ("amqp.prefetch = 0".to_owned(), "0 is out of range; write a whole number from 1 to 65535"),
    ] {
        let told = load(&file, &[]).expect_err(&file).to_string();
        assert!(told.ends_with(wrong), "{told}");
    }
}
