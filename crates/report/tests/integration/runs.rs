// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs that are read back and compared.

use crosslane_report::runs::{self, Comparison, values};
use crosslane_report::{Block, Page, Section, Series, SeriesKind};
use crosslane_results::{Better, Outcome, OutcomeError};

/// A run of two sizes with these rates in MB/s and this bottleneck.
fn bench(rates: [f64; 2], bottleneck: &str) -> String {
    let scenario = |bytes: u64, rate: f64| {
        let rate = rate * 1e6;
        format!(
            r#"{{"bytes": {bytes}, "flows": [{{"name": "card0 -> host", "bytes": {bytes},
            "iterations": 2, "latency": {{"min_ps": 1000000, "typical_ps": 2000000,
            "average_ps": 2000000, "p99_ps": 3000000, "max_ps": 3000000}},
            "application_bytes_per_second": {rate}}}], "links": [], "errors": [],
            "why_not_faster": {{"figure": {{"value": {rate}, "better": "higher"}},
            "account": {{"direction": "card0 -> host0", "link": "Gen3 x4",
            "uses": [{{"use": "payload", "share": 0.9}}, {{"use": "no_tag", "share": 0.1}}],
            "iommus": [{{"host": "host0", "iotlb_entries": 112, "walk_ps": 253000, "walks": 5,
            "requests": 4096, "misses": 1024, "queued_ps": 40960000, "waited_ps": 258048000,
            "walks_at_once": 1.25}}]}},
            "steps": [{{"limits": [{{"kind": "tags", "place": "card0", "words": "{bottleneck}",
            "lifted": "with 256"}}], "value": 2e9, "gain": 0.5}}]}}}}"#
        )
    };
    format!(
        r#"{{"bench": "write", "lab": "minimal", "seed": 7, "version": "0.1.0",
        "scenarios": [{}, {}]}}"#,
        scenario(64, rates[0]),
        scenario(128, rates[1])
    )
}

fn parsed(text: &str) -> Outcome {
    Outcome::parse(text).unwrap()
}

#[test]
fn the_same_run_is_equal_in_every_figure() {
    let run = parsed(&bench([500.0, 1000.0], "2 tags"));
    let comparison = Comparison::of(run.clone(), run);
    assert_eq!(comparison.result.figures.len(), 2 * 4);
    assert!(comparison.result.figures.iter().all(|figure| figure.change == Some(0.0)));
    assert!(comparison.summary().starts_with("8 figures in both: 8 equal, 0 better"));
}

#[test]
fn what_is_better_and_what_is_worse_is_told() {
    let first = parsed(&bench([500.0, 1000.0], "2 tags"));
    let second = parsed(&bench([600.0, 900.0], "64 tags"));
    let comparison = Comparison::of(first, second);
    let rates: Vec<_> = comparison
        .result
        .figures
        .iter()
        .filter(|figure| figure.better == Some(Better::Higher))
        .collect();
    assert!((rates[0].change.unwrap() - 0.2).abs() < 1e-12);
    assert!((rates[1].change.unwrap() + 0.1).abs() < 1e-12);
    assert_eq!([rates[0].is_worse(0.01), rates[1].is_worse(0.01)], [false, true]);
    assert!(comparison.summary().contains("1 better by more than 1 %, 1 worse"));
    let limits = &comparison.result.bottlenecks[1];
    assert_eq!([&limits.size, &limits.first, &limits.second], ["128 B", "2 tags", "64 tags"]);
}

#[test]
fn figures_of_one_run_only_are_not_lost() {
    let text = bench([500.0, 1000.0], "2 tags");
    let second = parsed(&text.replace("card0 -> host\"", "x -> host\""));
    let comparison = Comparison::of(parsed(&text), second);
    assert_eq!((comparison.result.figures.len(), comparison.result.only_first.len()), (0, 8));
    assert_eq!(comparison.result.only_second.len(), 8);
}

/// Titles and series of the plots of a comparison.
fn compared_plots(first: &str, second: &str) -> Vec<(String, Vec<Series>)> {
    let page = Comparison::of(parsed(first), parsed(second)).page("a command", ["old", "new"]);
    let blocks = page.sections.into_iter().flat_map(|section| section.blocks);
    let plots = blocks.filter_map(|block| match block {
        Block::Plot(plot) => Some((plot.title, plot.series)),
        _ => None,
    });
    plots.collect()
}

#[test]
fn compared_rates_are_lines_by_size_or_bars() {
    let (old, new) = (bench([500.0, 1000.0], "2 tags"), bench([600.0, 900.0], "64 tags"));
    let times = |name| Series::ours(name, [(64.0, 2.0), (128.0, 2.0)]);
    let rates = [[(64.0, 500.0), (128.0, 1000.0)], [(64.0, 600.0), (128.0, 900.0)]];
    let [old_rates, new_rates] = rates;
    let by_size = vec![
        (
            "Rate by size".into(),
            vec![Series::ours("old", old_rates), Series::ours("new", new_rates)],
        ),
        ("Typical time by size".into(), vec![times("old"), times("new")]),
    ];
    assert_eq!(compared_plots(&old, &new), by_size);
    let row = |quantity: &str, rate: f64| {
        format!(
            r#"{{"quantity": "{quantity}", "conditions": "", "unit": "MB/s", "simulated": {rate},
            "kind": "fit"}}"#
        )
    };
    let rows = |rows: &[String]| {
        let head = r#""reproduction": "x", "seed": 1, "version": "1""#;
        format!(r#"{{{head}, "rows": [{}]}}"#, rows.join(", "))
    };
    let bars = |name, points: &[(f64, f64)]| {
        Series::new(name, SeriesKind::Stacked, points.iter().copied())
    };
    let (old, new) = (rows(&[row("a", 7.0)]), rows(&[row("b", 9.0), row("a", 8.0)]));
    let found = vec![bars("old", &[(0.0, 7.0)]), bars("new", &[(3.0, 9.0), (1.0, 8.0)])];
    assert_eq!(compared_plots(&old, &new), [("Rate".into(), found)]);
    // A transfer's time has the unit of its outcome.
    let bridge = r#"{"bench": "bridge", "where": "lab sbdt", "seed": 1, "version": "1",
        "overlap": [], "transfers": [{"path": "put", "mode": "naive", "bytes": 8, "clients": 1,
        "seconds": [0.004], "bytes_per_second": 4e6}]}"#;
    let times = vec![bars("old", &[(0.0, 4.0)]), bars("new", &[(1.0, 4.0)])];
    assert_eq!(compared_plots(bridge, bridge)[1], ("Typical time".into(), times));
}

#[test]
fn why_begins_with_the_verdict() {
    let page =
        runs::page(&parsed(&bench([500.0, 1000.0], "2 tags of card0")), "crosslane bench").unwrap();
    let Block::Verdict(verdict) = &why_of(&page).blocks[0] else { panic!("no verdict") };
    assert_eq!(verdict, "2 tags of card0. With 256: 2000.0 MB/s instead of 1000.0 MB/s (+50.0 %).");
    assert!(page.facts.contains(&("seed".to_owned(), "7".to_owned())));
}

/// Returns the section of a page that says why the run was not faster.
fn why_of(page: &Page) -> &Section {
    let mut sections = page.sections.iter();
    sections.find(|section| section.title == "Why not faster").expect("the run is explained")
}

/// A run whose limits were lifted with these gains.
fn with_trials(gains: &[f64]) -> String {
    let trial = |gain: &f64| {
        format!(
            r#"{{"limit": {{"kind": "tags", "place": "card0", "words": "limit of {gain}",
            "lifted": "none"}}, "value": 1e9, "gain": {gain}}}"#
        )
    };
    let trials: Vec<String> = gains.iter().map(trial).collect();
    let trials = format!(r#""gain": 0.5}}], "trials": [{}]"#, trials.join(", "));
    bench([500.0, 1000.0], "2 tags").replace(r#""gain": 0.5}]"#, &trials)
}

#[test]
fn limits_without_gain_are_one_sentence() {
    let page = |gains: &[f64]| runs::page(&parsed(&with_trials(gains)), "crosslane bench").unwrap();
    let lifted = |page: &Page| {
        let blocks = why_of(page).blocks.clone().into_iter();
        let rows = blocks.filter_map(|block| match block {
            Block::Table(table) if table.title == "Each limit lifted alone" => Some(table.rows),
            _ => None,
        });
        rows.flatten().map(|row| row[4].text.clone()).collect::<Vec<_>>()
    };
    let idle = |page: &Page| {
        why_of(page).blocks.iter().find_map(|block| match block {
            Block::Text(text) if text.contains("nothing when lifted") => Some(text.clone()),
            _ => None,
        })
    };
    let some = page(&[0.2, 0.0004, -0.0002, -0.01]);
    assert_eq!(lifted(&some), ["+20.0", "-1.0"]);
    let sentence = "2 limits gain nothing when lifted alone: limit of 0.0004; limit of -0.0002.";
    assert_eq!(idle(&some).as_deref(), Some(sentence));
    let none = page(&[0.0]);
    assert!(lifted(&none).is_empty());
    let sentence = "1 limit gains nothing when lifted alone: limit of 0.";
    assert_eq!(idle(&none).as_deref(), Some(sentence));
    assert_eq!(idle(&page(&[0.2])), None);
}

#[test]
fn rate_plot_comes_before_lifted_limits() {
    let page = runs::page(&parsed(&with_trials(&[0.2])), "crosslane bench").unwrap();
    let Block::Plot(plot) = &page.sections[0].blocks[0] else { panic!("no plot") };
    assert_eq!(plot.title, "Rate by size");
    assert_eq!(page.sections[1].title, "Why not faster");
}

#[test]
fn a_run_on_cards_says_which() {
    let devices = r#""devices": ["vfio:0000:01:00.0", "vfio:0000:02:00.0"]"#;
    let run = parsed(&bench([500.0, 1000.0], "2 tags").replace(r#""lab": "minimal""#, devices));
    let page = runs::page(&run, "crosslane bench").unwrap();
    assert_eq!(page.title, "bench write on vfio:0000:01:00.0, vfio:0000:02:00.0");
    assert_eq!(run.name(), "bench write, vfio:0000:01:00.0, vfio:0000:02:00.0");
    // On served cards the page says which clock each time is by.
    let is_said = |run: &Outcome| {
        let page = runs::page(run, "crosslane bench").unwrap();
        let results = page.sections.into_iter().find(|section| section.title == "Results").unwrap();
        matches!(&results.blocks[0], Block::Text(text) if text.contains("in this machine's time"))
    };
    let served = bench([500.0, 1000.0], "2 tags")
        .replace(r#""lab": "minimal""#, &format!(r#"{devices}, "served": true"#));
    assert_eq!([is_said(&run), is_said(&parsed(&served))], [false, true]);
}

#[test]
fn a_page_has_what_iommus_did() {
    let text = bench([500.0, 1000.0], "2 tags of card0");
    let tables = |text: &str| {
        let blocks = why_of(&runs::page(&parsed(text), "crosslane bench").unwrap()).blocks.clone();
        let tables = blocks.into_iter().filter_map(|block| match block {
            Block::Table(table) if table.title == "Translations meanwhile" => Some(table.rows),
            _ => None,
        });
        tables.collect::<Vec<_>>()
    };
    let there = tables(&text);
    let row: Vec<&str> = there[0][0].iter().map(|cell| cell.text.as_str()).collect();
    assert_eq!(row, ["host0", "112", "4096", "25.0", "253.0", "1.25", "5", "63.0", "10.0"]);
    // Runs of older versions, and labs without an IOMMU.
    assert!(tables(&text.replace("\"iommus\"", "\"others\"")).is_empty());
}

#[test]
fn what_is_no_run_is_refused_with_its_place() {
    let error = |text: &str| Outcome::parse(text).unwrap_err();
    assert!(matches!(error("{\"bench\": "), OutcomeError::Syntax { line: 1, .. }));
    assert!(matches!(error("[1, 2"), OutcomeError::Syntax { .. }));
    assert!(error("{}").to_string().contains("neither `bench` nor `reproduction`"));
    assert!(matches!(error("{\"bench\": \"write\"}"), OutcomeError::Kind { .. }));
    let no_bytes = r#"{"bench": "write", "lab": "minimal", "seed": 1, "version": "0",
        "scenarios": [{"flows": [{}]}]}"#;
    assert!(error(no_bytes).to_string().contains("missing field"));
    let nowhere = bench([500.0, 1000.0], "2 tags").replacen("\"lab\"", "\"laboratory\"", 1);
    assert!(error(&nowhere).to_string().contains("neither `lab` nor `devices`"));
    let wrong = bench([500.0, 1000.0], "2 tags").replacen("0.9}", "1.9}", 1);
    assert_eq!(
        error(&wrong).to_string(),
        "scenarios[0].why_not_faster.account: 1.9 is not a share of time"
    );
}

#[test]
fn a_reproduction_is_compared_row_by_row() {
    let run = |value: f64| {
        parsed(&format!(
            r#"{{"reproduction": "rosta", "seed": 1, "version": "0.1.0", "rows": [
            {{"quantity": "latency", "conditions": "1 switch", "unit": "ns", "published": 706.0,
            "simulated": {value}, "error": 0.0, "kind": "fit"}},
            {{"quantity": "latency", "conditions": "2 switches", "unit": "ns",
            "published": 800.0, "simulated": null, "error": null, "kind": "context"}}]}}"#
        ))
    };
    let comparison = Comparison::of(run(700.0), run(770.0));
    assert_eq!(comparison.result.figures.len(), 1);
    assert!(comparison.result.figures[0].is_worse(0.05));
    assert!(runs::page(&run(700.0), "x").is_none());
}

/// Blocks of the results of a page: titles of plots, headings of tables, and texts.
fn results(text: &str) -> Vec<String> {
    let page = runs::page(&parsed(text), "crosslane bench").unwrap();
    let results = page.sections.into_iter().find(|section| section.title == "Results").unwrap();
    let words = |block| match block {
        Block::Plot(plot) => plot.title,
        Block::Table(table) => {
            table.columns.into_iter().map(|it| it.heading).collect::<Vec<_>>().join(" | ")
        }
        Block::Text(text) => text,
        _ => String::new(),
    };
    results.blocks.into_iter().map(words).collect()
}

/// A time needs the number of transfers in flight beside it, which changes with the size.
#[test]
fn times_by_size_say_how_many_are_in_flight() {
    let text = bench([500.0, 1000.0], "2 tags");
    // Older versions did not store it.
    assert_eq!(results(&text)[1], "Time of a transfer by size");
    let at = |size: u64, depth: u64| format!("\"bytes\": {size}, \"in_flight\": {depth},\n");
    let with = |depths: [u64; 2]| {
        let text = text.replace("\"bytes\": 64,\n", &at(64, depths[0]));
        results(&text.replace("\"bytes\": 128,\n", &at(128, depths[1])))
    };
    let found = with([8, 4]);
    assert_eq!(found[1], "Time of a transfer by size, 8 to 4 in flight");
    assert!(found[2].contains("posted before it: 8 to 4 in flight"), "{found:?}");
    assert!(found[3].contains("| iterations | in flight |"), "{found:?}");
    let found = with([1, 1]);
    assert_eq!(found[1], "Time of a transfer by size, 1 in flight");
    assert!(found[2].starts_with("flow | "), "{found:?}");
}

/// A program that simulates cards has another clock than the machine: no rate or share by it is
/// shown beside the others.
#[test]
fn results_of_served_cards_are_on_one_clock() {
    let lab = r#""lab": "minimal""#;
    let text = bench([500.0, 1000.0], "2 tags").replace(
        "\"application_bytes",
        "\"hardware\": {\"bytes_per_second\": 7e9},\n\"application_bytes",
    );
    let text = text.replace(lab, r#""devices": ["vfio-user:a.sock"]"#);
    let served = text.replace("\"devices\"", "\"served\": true, \"devices\"");
    let heading = |text: &str| results(text).pop().unwrap();
    assert!(heading(&text).ends_with("| MB/s | ceiling MB/s | less DLLPs | of it %"));
    assert!(heading(&served).ends_with("| max | app MB/s"), "{}", heading(&served));
    let summary = |text: &str| runs::page(&parsed(text), "crosslane bench").unwrap().summary;
    assert!(summary(&text).contains("7000.0 MB/s") && summary(&served).contains("1000.0 MB/s"));
    let figures = |text: &str| {
        let values = values(&parsed(text)).into_iter();
        values.filter(|value| value.quantity == "rate by timers").count()
    };
    assert_eq!([figures(&text), figures(&served)], [2, 0]);
}

#[test]
fn a_page_says_what_comes_of_the_bottleneck_and_of_short_runs() {
    let text = bench([500.0, 1000.0], "2 tags");
    let texts = |text: &str| {
        let sections = runs::page(&parsed(text), "crosslane bench").unwrap().sections;
        let why = sections.into_iter().find(|section| section.title == "Why not faster").unwrap();
        let texts = why.blocks.into_iter().filter_map(|block| match block {
            Block::Text(text) => Some(text),
            _ => None,
        });
        texts.collect::<Vec<_>>()
    };
    assert!(texts(&text).is_empty(), "{:?}", texts(&text));
    let more = r#""measured": {"value": 2e9, "better": "higher"}, "consequence": {
        "use": "no_tag", "share": 0.442, "share_without": 0.021}, "steps""#;
    let found = texts(&text.replace("\"steps\"", more));
    assert_eq!(found[0], "No tag, 44.2 % of the time, comes of that: 2.1 % without it.");
    let warning = "Warning: the run that was explained reached 1000.0 MB/s, 50.0 % less than the \
                   2000.0 MB/s that were measured: ";
    assert!(found[1].starts_with(warning), "{found:?}");
}

#[test]
fn rows_have_pages_with_plots_and_tables() {
    let page = |text: &str| runs::page(&parsed(text), "crosslane bench").unwrap();
    let tables = |page: &Page| -> Vec<Vec<Vec<String>>> {
        let blocks = page.sections.iter().flat_map(|section| &section.blocks);
        let tables = blocks.filter_map(|block| match block {
            Block::Table(table) => Some(&table.rows),
            _ => None,
        });
        let words =
            |row: &Vec<crosslane_report::Cell>| row.iter().map(|cell| cell.text.clone()).collect();
        tables.map(|rows| rows.iter().map(words).collect()).collect()
    };
    let overhead = page(
        r#"{"bench": "overhead", "device": "lab:kc705", "seed": 1, "version": "1",
        "rows": [{"what": "register read", "rounds": 2, "bytes": null, "bus_ps": 1500000,
        "machine_ps": 7000000}, {"what": "large read", "rounds": 3, "bytes": 4000,
        "bus_ps": 2000000, "machine_ps": 9000000}]}"#,
    );
    assert_eq!(overhead.title, "bench overhead on lab:kc705");
    assert_eq!(overhead.summary, "register read 1.500 us, large read 2.000 us.");
    assert_eq!(tables(&overhead)[0][1], ["large read", "3", "4000", "2.000", "2000.0", "9.000"]);
    let operations = page(
        r#"{"bench": "operations", "device": "lab:kc705", "seed": 1, "version": "1",
        "rows": [{"what": "DMA read, ring", "rounds": 2, "bytes": 64, "data_ps": 1500000,
        "card_ps": 900000, "done": {"min_ps": 1, "typical_ps": 1700000, "average_ps": 1,
        "p99_ps": 1800000, "max_ps": 1}, "terms": [{"what": "fetch", "ps": 601234}]}],
        "published": {"what": "DMA read", "bytes": 64, "ps": 546000, "source": "a table"}}"#,
    );
    assert_eq!(operations.summary, "DMA read, ring 1.700 us.");
    assert_eq!(
        tables(&operations),
        [
            vec![vec!["DMA read, ring", "64", "1.500", "0.900", "1.700", "1.800"]],
            vec![vec!["fetch", "601.234"]],
        ]
    );
    let sweep = page(
        r#"{"bench": "sweep", "lab": "kc705", "card": "card0", "seed": 1, "version": "1", "rows": [
        {"way": "write", "width": 2, "tags": 4.0, "size_bytes": 1024, "transfer_ns": 2e3,
        "bytes_per_second": 5e8}, {"way": "write", "width": 2, "tags": 8.0, "size_bytes": 1024,
        "transfer_ns": 1e3, "bytes_per_second": 1e9, "wrong_words": 3}]}"#,
    );
    let Block::Plot(plot) = &sweep.sections[0].blocks[0] else { panic!("{sweep:?}") };
    let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(
        (plot.title.as_str(), &names[..]),
        ("Rate by size, write", &["x2, tags 4", "x2, tags 8"][..])
    );
    assert_eq!(tables(&sweep)[0][1], ["write", "8", "2", "1024", "1.000", "1000.0", "3"]);
    let bridge = page(
        r#"{"bench": "bridge", "where": "lab sbdt", "seed": 1, "version": "1", "overlap": [
        {"path": "put", "bytes": 8192, "naive_over_pipelined": 1.9, "bound": 2.0, "share": 0.95}],
        "transfers": [{"path": "put", "mode": "naive", "bytes": 8192, "clients": 2,
        "seconds": [0.003, 0.001, 0.002], "bytes_per_second": 4e6, "why_not_faster": "x"}]}"#,
    );
    assert_eq!(bridge.summary, "put, naive, 2 clients: 4.0 MB/s at 8 KiB.");
    let [transfers, overlaps] = &tables(&bridge)[..] else { panic!("{bridge:?}") };
    assert_eq!(transfers[0], ["put", "naive", "8192", "2", "2.000", "4.0", "0", "x"]);
    assert_eq!(overlaps[0], ["put", "8192", "1.90", "2.00", "95.0"]);
}
