//! How commands are paced, as a whole and by kind of device.

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
