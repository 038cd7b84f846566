//! The README shows the tour and what it prints: both must be true.

use std::path::Path;
use std::process::Command;

#[test]
fn the_tour_prints_what_the_readme_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let tour = std::fs::read_to_string(root.join("examples/tour.sql")).unwrap();
    assert!(readme.contains(&format!("```sql\n{tour}```")), "README shows examples/tour.sql");
    let run = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["--no-rc", "-f", "examples/tour.sql"])
        .current_dir(root)
        .output()
        .unwrap();
    let printed = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(
        readme.contains(&format!("```text\n{printed}```")),
        "README shows what the tour prints:\n{printed}"
    );
}
