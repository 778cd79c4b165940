//! What `/metrics` shows of queues and devices, in its own words.

use crate::queues::rig::{Rig, SECOND, job, later};

#[tokio::test]
async fn jobs_are_shown_by_queue_and_state_and_devices_by_connection() {
    let rig = Rig::start().await;
    rig.publish(later("1", 60 * SECOND)).await;
    rig.publish(job("2")).await;
    rig.publish(job("3")).await;
    assert_eq!(rig.payloads(1).await, ["2"]);
    rig.until_shown(&[
        "# TYPE fieldpost_engine_queue_jobs gauge",
        r#"fieldpost_engine_queue_jobs{queue="shop/orders",state="scheduled"} 1"#,
        r#"fieldpost_engine_queue_jobs{queue="shop/orders",state="ready"} 1"#,
        r#"fieldpost_engine_queue_jobs{queue="shop/orders",state="reserved"} 1"#,
        r#"fieldpost_engine_queue_jobs{queue="shop/orders",state="dead"} 0"#,
        r#"fieldpost_engine_queue_jobs{queue="-",state="ready"} 0"#,
        r#"fieldpost_engine_devices{connection="never_seen"} 0"#,
        r#"fieldpost_engine_devices{connection="online"} 0"#,
        r#"fieldpost_engine_devices{connection="lost"} 0"#,
        "fieldpost_engine_deliveries_pending 0",
    ])
    .await;
}
