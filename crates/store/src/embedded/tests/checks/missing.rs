//! Directories of which a part is missing.

use super::*;

#[test]
fn a_directory_without_its_tables_or_without_its_log_is_damaged() {
    for (gone, expect) in [("tables", "its file `tables` is missing"), ("log-", "their log is missing")] {
        let directory = directory();
        let names = files(directory.path());
        for name in names.keys().filter(|name| name.contains(&format!("/{gone}"))) {
            std::fs::remove_file(name).expect("is removed");
        }
        let before = files(directory.path());
        let (found, _) = check(directory.path());
        assert!(matches!(&found[..], [one] if one.contains(expect)), "{gone}: {found:?}");
        assert!(files(directory.path()) == before, "nothing was changed");
    }
}
