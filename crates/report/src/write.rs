// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages as files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::page::Page;
use crate::{clean, html};

/// Name of a page's file in its folder.
const FILE: &str = "index.html";

/// Why a page was not written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Its folder could not be made.
    #[error("the report's folder {} cannot be made: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Its file could not be written.
    #[error("the report {} cannot be written: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl Page {
    /// The page as one HTML document with everything in it: nothing is fetched. The same page
    /// gives the same bytes.
    #[must_use]
    pub fn to_html(&self) -> String {
        html::document(&clean::page(self))
    }

    /// Writes the page as `index.html` into a folder and returns the file's path. The folder is
    /// made where it is missing; a page that is there is replaced.
    ///
    /// # Errors
    ///
    /// The folder cannot be made, or the file not be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, ReportError> {
        fs::create_dir_all(folder)
            .map_err(|source| ReportError::Folder { path: folder.to_owned(), source })?;
        let path = folder.join(FILE);
        fs::write(&path, self.to_html())
            .map_err(|source| ReportError::File { path: path.clone(), source })?;
        Ok(path)
    }
}
