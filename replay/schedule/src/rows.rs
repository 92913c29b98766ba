//! The rows of a trace as the compiler is given them: batches of columns, little-endian.
//!
//! A batch is the number of its rows, a word with a bit for each column that is there, the lowest
//! for the first, and these columns one after the other, each a 64-bit number for each row. The
//! numbers of a column that is not there are all ones. The end of the input is the end of the rows.

use std::io::{self, Read};

const MOST_ROWS: u64 = 1 << 22;

/// Reads batches of `COLUMNS` columns.
pub(crate) struct Rows<R, const COLUMNS: usize> {
    input: R,
    columns: [Vec<u64>; COLUMNS],
    /// In place of columns that are not there.
    ones: Vec<u64>,
    /// A bit for each column that is there, and how many rows the batch has.
    there: u64,
    count: usize,
    next: usize,
}

impl<R: Read, const COLUMNS: usize> Rows<R, COLUMNS> {
    pub(crate) fn new(input: R) -> Self {
        Rows {
            input,
            columns: std::array::from_fn(|_| Vec::new()),
            ones: Vec::new(),
            there: 0,
            count: 0,
            next: 0,
        }
    }

    /// The next row; None when there are no more.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> io::Result<Option<[u64; COLUMNS]>> {
        while self.next == self.count {
            if !self.read_batch()? {
                return Ok(None);
            }
        }
        let row = self.next;
        self.next += 1;
        Ok(Some(self.batch().map(|column| column[row])))
    }

    /// The columns of the next batch, all of the same length; None when there are no more.
    pub(crate) fn next_batch(&mut self) -> io::Result<Option<[&[u64]; COLUMNS]>> {
        if !self.read_batch()? {
            return Ok(None);
        }
        self.next = self.count;
        Ok(Some(self.batch()))
    }

    #[inline(always)]
    fn batch(&self) -> [&[u64]; COLUMNS] {
        std::array::from_fn(|column| {
            let is_there = self.there >> column & 1 != 0;
            let column = if is_there {
                &self.columns[column]
            } else {
                &self.ones
            };
            &column[..self.count]
        })
    }

    #[cold]
    fn read_batch(&mut self) -> io::Result<bool> {
        let Some(rows) = self.read_number()? else {
            return Ok(false);
        };
        if rows > MOST_ROWS {
            return Err(io::Error::other(format!("a batch of {rows} rows")));
        }
        self.there = self
            .read_number()?
            .ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?;
        (self.count, self.next) = (rows as usize, 0);
        self.ones.resize(self.count, u64::MAX);
        for (number, column) in self.columns.iter_mut().enumerate() {
            if self.there >> number & 1 != 0 {
                column.resize(self.count, 0);
                self.input.read_exact(bytemuck::cast_slice_mut(column))?;
            }
        }
        Ok(true)
    }

    /// None at the end of the input.
    fn read_number(&mut self) -> io::Result<Option<u64>> {
        let mut bytes = [0; 8];
        match self.input.read(&mut bytes)? {
            0 => return Ok(None),
            read => self.input.read_exact(&mut bytes[read..])?,
        }
        Ok(Some(u64::from_le_bytes(bytes)))
    }
}
