//! `[commands]` and `[kinds.NAME]`: how commands go out, and what kinds have of their own.

use gateway::decode::kinds::{JsonPointer, KindTopics, RawForm, TopicTemplate};

use super::*;

#[test]
fn commands_are_paced_as_a_whole_and_by_kind() {
    let file = "[commands]\nmax_attempts = 3\ngap = \"1s\"\n[kinds.face]\nin_flight = 4\n[kinds.gate-2]\n";
    check(file, &[("FIELDPOST_COMMANDS__ACK_TIMEOUT", "250ms")], |settings| {
        let pace = engine::settings::CommandPace { in_flight: 1, gap: SECOND };
        let kind = |name| base::Kind::new(name).expect("a kind");
        settings.commands.ack_timeout = 250 * MS;
        settings.commands.attempts_max = 3;
        settings.commands.pace = pace;
        settings
            .commands
            .by_kind
            .insert(kind("face"), engine::settings::CommandPace { in_flight: 4, ..pace });
        settings.commands.by_kind.insert(kind("gate-2"), pace);
    });
    check_refused(
        "[commands]\nin_flight = 0\nkeep = \"1s\"\n",
        &[],
        "f.toml:2:1: commands.in_flight: 0 is out of range; write a whole number from 1 to 1000\n\
         f.toml:3:1: commands.keep: \"1s\" is out of range; write a duration from \"1m\" to \"3650d\"",
    );
}

#[test]
fn what_is_wrong_with_a_kind_is_told_at_its_place() {
    check_refused(
        "[kinds.face]\nin_flight = 2\ngap = \"2h\"\nin_flihgt = 3\n[kinds.Gate]\n[kinds]\nlock = 1\n",
        &[("FIELDPOST_KINDS__FACE", "x")],
        "f.toml:3:1: kinds.face.gap: \"2h\" is out of range; write a duration from \"0s\" to \"1h\"\n\
         f.toml:4:1: kinds.face.in_flihgt: unknown key; did you mean in_flight?\n\
         f.toml:5:8: kinds.Gate: is not a kind; write a name such as [kinds.face]: a letter, then up to 31 of \
         a-z, 0-9, _ and -\n\
         f.toml:7:1: kinds.lock: is a number, not a section; write [kinds.lock] in a file\n\
         environment variable FIELDPOST_KINDS__FACE: kinds.face: is a section, which no variable can hold; write \
         [kinds.face] in a file",
    );
}

#[test]
fn a_kind_may_have_topics_and_messages_of_its_own() {
    let file = "[kinds.face]\nenvelope = \"raw\"\nid_path = \"/messageId\"\nack_id_path = \"/messageId\"\n\
                ack_ok_path = \"/code\"\nack_ok_value = 200\ndown = \"face/{id}/in\"\nack = \"face/{id}/out\"\n";
    check(file, &[], |settings| {
        let pointer = |text| JsonPointer::new(text).expect("a pointer");
        let face = KindTopics {
            down: TopicTemplate::new("face/{id}/in"),
            ack: TopicTemplate::new("face/{id}/out"),
            raw: Some(RawForm {
                id_path: pointer("/messageId"),
                ack_id_path: pointer("/messageId"),
                ack_ok_path: pointer("/code"),
                ack_ok_value: 200.into(),
            }),
            ..KindTopics::default()
        };
        let kind = base::Kind::new("face").expect("a kind");
        settings.commands.by_kind.insert(kind.clone(), settings.commands.pace);
        settings.kinds = KindForms::new([(kind, face)].into()).expect("topics with one meaning each");
    });
    check_refused(
        "[kinds.face]\nid_path = \"/id\"\ndown = \"face/+\"\n[kinds.gate]\nenvelope = \"bare\"\nack_ok_value = 1\n\
         [kinds.bell]\nenvelope = \"raw\"\nid_path = \"id\"\nack_id_path = \"/id\"\nack_ok_value = []\n",
        &[],
        "f.toml:2:1: kinds.face.id_path: is given without an envelope; write envelope = \"raw\" too\n\
         f.toml:3:1: kinds.face.down: \"face/+\" is not such a topic; write a topic of up to 128 bytes without \
         wildcards, with {id} as one of its levels, such as \"door/{id}\"\n\
         f.toml:5:1: kinds.gate.envelope: \"bare\" is not a known word; write \"raw\"\n\
         f.toml:7:8: kinds.bell.ack_ok_path: is missing; write a JSON pointer such as \"/messageId\" or \"/header/id\"\n\
         f.toml:9:1: kinds.bell.id_path: \"id\" is not one; write a JSON pointer such as \"/messageId\" or \"/header/id\"\n\
         f.toml:11:1: kinds.bell.ack_ok_value: is a list; write a text in quotes, a whole number, true or false",
    );
    check_refused(
        "[kinds.face]\ndown = \"x/{id}\"\n[kinds.gate]\nack = \"x/{id}\"\n",
        &[],
        "f.toml:1:8: kinds.face: the topic \"x/{id}\" has another meaning too; write another",
    );
}
