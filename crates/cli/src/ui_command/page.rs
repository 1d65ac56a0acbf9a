// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of the page. They lie in a folder rather than in the program: what they are compiled
//! from needs Node, which a build of the program does not, and the program does not grow by them.
//! All of them are read at the beginning, so that no request names a path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crosslane_report::page_style;

use crate::error::{CommandError, Result};
use crate::files::cannot_read;

/// The first file of the page.
pub const INDEX: &str = "index.html";
/// Most bytes of a file of the page.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// Says in the page where runs are made: in the browser, unless this program replaces it.
const RUNS_IN_BROWSER: &str = r#"<meta name="runs" content="browser">"#;
const RUNS_IN_PROGRAM: &str = r#"<meta name="runs" content="program">"#;
/// Style sheet of reports, which this program has by itself.
const STYLE: &str = "report.css";

/// Places of the page, from the folder of the program: as it is installed, and as `make web` builds
/// it.
const PLACES: [&str; 2] = ["../share/crosslane/lab", "../lab"];

/// A file of the page.
pub struct PageFile {
    /// Media type.
    pub kind: &'static str,
    /// Content.
    pub bytes: Vec<u8>,
}

/// The files of the page by their names.
pub struct PageFiles(BTreeMap<String, PageFile>);

impl PageFiles {
    /// Reads the page from this folder, or from where it is installed.
    ///
    /// # Errors
    /// A page that is not there, or is not one of this program.
    pub fn read(folder: Option<&Path>) -> Result<Self> {
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => installed()?,
        };
        let mut files = BTreeMap::new();
        let entries = std::fs::read_dir(&folder).map_err(|error| cannot_read(&folder, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| cannot_read(&folder, &error))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(kind) = kind_of(name) else { continue };
            let size = std::fs::metadata(&path).map_err(|error| cannot_read(&path, &error))?.len();
            if size > MAX_FILE_BYTES {
                return Err(cannot_read(&path, &format!("it has more than {MAX_FILE_BYTES} B")));
            }
            let bytes = std::fs::read(&path).map_err(|error| cannot_read(&path, &error))?;
            files.insert(name.to_owned(), PageFile { kind, bytes });
        }
        let index = files.get_mut(INDEX).and_then(|file| {
            let text = std::str::from_utf8(&file.bytes).ok()?;
            let replaced = text.replace(RUNS_IN_BROWSER, RUNS_IN_PROGRAM).into_bytes();
            (replaced != file.bytes).then(|| file.bytes = replaced)
        });
        if index.is_none() {
            let folder = folder.display();
            let sentence = format!("{folder} has no page of this program: `make web` builds one");
            return Err(CommandError::Failed(sentence));
        }
        let kind = kind_of(STYLE).unwrap_or_default();
        files.insert(STYLE.to_owned(), PageFile { kind, bytes: page_style().into_bytes() });
        Ok(Self(files))
    }

    /// Returns a file by its name.
    pub fn get(&self, name: &str) -> Option<&PageFile> {
        self.0.get(name)
    }
}

/// Finds the page beside the program.
fn installed() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    let places = PLACES.map(|place| beside.join(place));
    let found = places.iter().find(|place| place.join(INDEX).is_file());
    found.cloned().ok_or_else(|| {
        let [first, second] = places.map(|place| place.display().to_string());
        CommandError::Failed(format!(
            "the page is not there, neither in {first} nor in {second}: packages install it, \
             `make web` builds it, and --page FOLDER says where it is"
        ))
    })
}

/// Returns the media type of a file of the page. The module is left out: this program runs.
fn kind_of(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1 {
        "html" => Some("text/html; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        _ => None,
    }
}
