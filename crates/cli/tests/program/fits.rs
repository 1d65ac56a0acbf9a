// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench sweep`, and `fit` of what it writes and of anybody's measurements.

use std::fs;

use crate::run::{assert_refused, folder, json_of, run_as_written, run_well};

/// The kc705 document's measurement in one line, and its fit in another.
#[test]
fn a_sweep_is_written_and_fitted() {
    let folder = folder("a_sweep_is_written_and_fitted");
    let at = |name: &str| folder.join(name).display().to_string();
    let sweep = format!(
        "bench sweep --lab kc705 --way to-card --link 1x1,2x1,1x4,2x4 --size 1K,1M \
         --descriptors table --notify interrupt --json --csv {} --report {}",
        at("sweep.csv"),
        at("sweep")
    );
    let run = run_well(&sweep);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!((json["bench"].as_str(), json["lab"].as_str()), (Some("sweep"), Some("kc705")));
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row["wrong_words"] == 0 && row["way"] == "to-card"));
    let of_last = rows[7]["bytes_per_second"].as_f64().unwrap();
    assert!((800e6..900e6).contains(&of_last), "{of_last}");
    // The same again, bit for bit.
    assert_eq!(run_as_written(&sweep).stdout, run.stdout);
    let page = fs::read_to_string(folder.join("sweep/index.html")).unwrap();
    assert!(page.contains("Rate by size, to-card") && page.contains("Gen2 x4, descriptors table"));

    let csv = fs::read_to_string(folder.join("sweep.csv")).unwrap();
    assert!(csv.starts_with("way,generation,width,descriptors,bytes,us\nto-card,1,1,table,1024,"));
    let json = json_of(&format!("fit {} --json", at("sweep.csv")));
    let fits = json["fits"].as_array().unwrap();
    let over: Vec<&str> = fits.iter().map(|fit| fit["over"].as_str().unwrap()).collect();
    assert_eq!(over, ["links", "links", "sizes"]);
    let of_theory = fits[1]["of_theory"].as_f64().unwrap();
    assert!((0.84..0.88).contains(&of_theory), "{of_theory}");
    assert_eq!(fits[1]["residuals"].as_array().unwrap().len(), 4);
    let run = run_well(&format!("fit {} --report {}", at("sweep.csv"), at("fit")));
    assert!(run.stdout.contains("links, 1 MiB") && run.stdout.contains("residual %"));
    let page = fs::read_to_string(folder.join("fit/index.html")).unwrap();
    assert!(page.contains("the link, fitted") && page.contains("Time of 1 MiB"));
    // Links are called what the file calls them, and its own times are nobody's publication.
    assert!(page.contains("Gen2 x4, measured") && !page.contains("k = 8"), "{page}");
    assert!(!page.contains(", published"), "{page}");
}

#[test]
fn a_bad_fit_is_called_bad() {
    let folder = folder("a_bad_fit_is_called_bad");
    let (file, pages) = (folder.join("bent.csv"), folder.join("page"));
    fs::write(&file, "bytes,us\n1000,10\n2000,10\n3000,10\n4000,30\n").unwrap();
    let fit = format!("fit {}", file.display());
    let run = run_as_written(&format!("{fit} --report {}", pages.display()));
    let sentence = "ad fit, sizes: one time is 52.9 % off the line; what the line says of rate \
                    and fixed time does not hold";
    assert!(run.stdout.contains(sentence), "{}", run.stdout);
    assert!(fs::read_to_string(pages.join("index.html")).unwrap().contains(sentence));
    let json = json_of(&format!("{fit} --json"));
    assert_eq!(json["fits"][0]["is_bad"], true, "{json}");
}

/// Other parameters: any number of the lab, tags, payloads, what is in the ring.
#[test]
fn sweeps_go_over_any_parameter() {
    let rates = |arguments: &str| -> Vec<f64> {
        let run = run_well(&format!("bench sweep {arguments} --json"));
        let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        let rows = json["rows"].as_array().unwrap();
        rows.iter().map(|row| row["bytes_per_second"].as_f64().unwrap()).collect()
    };
    let rises = |arguments: &str, count: usize| {
        let rates = rates(arguments);
        assert_eq!(rates.len(), count, "{arguments}");
        assert!(rates.windows(2).all(|pair| pair[1] > pair[0]), "{arguments}: {rates:?}");
    };
    rises("--lab kc705 --way from-card --set part.kc705.card_memory.axi_bytes=8,16,32", 3);
    rises("--lab kc705:crosslane --way to-card --size 1K --outstanding 1,4,16", 3);
    rises("--lab rosta:crosslane --way read --tags 1,4,16 --iterations 4", 3);
    rises("--lab minimal --way write --link 1x1,2x2,3x4 --iterations 2", 3);
    rises("--lab minimal --way write --mps 128,256 --outstanding 8", 2);
    rises("--lab minimal --way read --descriptors ring --size 1K..8K --iterations 2", 4);
}

#[test]
fn a_file_that_cannot_be_fitted_is_answered_with_its_line() {
    let folder = folder("a_file_that_cannot_be_fitted");
    let file = folder.join("measured.csv");
    for (text, complaint) in [
        ("", "measured.csv, line 1: it is empty"),
        ("bytes,us\n1024,\n", "measured.csv, line 2: us \"\" is not a number more than 0"),
        ("bytes,us\n1024,5,6\n", "measured.csv, line 2: 3 fields; the heading has 2"),
        ("bytes,us\n1024,5\n1024,6\n", "measured.csv, line 2: cannot put a line through"),
    ] {
        fs::write(&file, text).unwrap();
        assert_refused(&format!("fit {}", file.display()), 1, complaint);
    }
    fs::write(&file, b"bytes,us\n\xff\n").unwrap();
    assert_eq!(run_as_written(&format!("fit {}", file.display())).code, 1);
    let nothing = format!("fit {}", folder.join("nothing.csv").display());
    assert_refused(&nothing, 1, "nothing.csv cannot be read: ");
    assert_eq!(run_as_written("fit").code, 2);
}

/// Anybody's: one link, two sizes, no theory.
#[test]
fn a_table_of_two_lines_is_enough() {
    let file = folder("a_table_of_two_lines").join("mine.csv");
    fs::write(&file, "bytes,us\n1000,11\n100000,110\n").unwrap();
    let json = json_of(&format!("fit {} --json", file.display()));
    let fit = &json["fits"][0];
    let close = |key: &str, want: f64| {
        let found = fit[key].as_f64().unwrap();
        assert!((found - want).abs() < 1e-6 * want, "{key}: {found}");
    };
    close("bytes_per_second", 1e9);
    close("fixed_ns", 10_000.0);
    close("half_rate_bytes", 10_000.0);
    assert!(fit["of_theory"].is_null());
}
