// Package csvexport writes lists as CSV, for spreadsheets. It is used by the list operations of server/api.
package csvexport

import (
	"encoding/csv"
	"net/http"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/stamp"
)

// Media is the media type of CSV.
const Media = "text/csv"

// MaxRows bounds the export of a list that is paged otherwise: a request log has millions of rows.
const MaxRows = 10_000

// Requested reports whether a request prefers CSV to JSON: the first of both in Accept counts.
func Requested(h http.Header) bool {
	for _, accept := range h["Accept"] {
		for one := range strings.SplitSeq(accept, ",") {
			media, _, _ := strings.Cut(one, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "application/json":
				return false
			case Media:
				return true
			}
		}
	}
	return false
}

// Writer writes CSV row by row. The first few kilobytes are buffered, so that an early failure can still become a
// problem.
type Writer struct {
	w       http.ResponseWriter
	csv     *csv.Writer
	started bool
	name    string
	head    []string
}

// New returns a writer. name is the name of the file that a browser saves, without extension.
func New(w http.ResponseWriter, name string, columns ...string) *Writer {
	return &Writer{w: w, csv: csv.NewWriter(w), name: name, head: columns}
}

func (s *Writer) Row(cells ...string) error {
	if err := s.writeHead(); err != nil {
		return err
	}
	for i, cell := range cells {
		cells[i] = escapeFormula(cell)
	}
	return s.csv.Write(cells)
}

// End flushes the rows, and writes the header row of an export without rows.
func (s *Writer) End() error {
	if err := s.writeHead(); err != nil {
		return err
	}
	s.csv.Flush()
	return nil // A failed write means that the caller disconnected.
}

func (s *Writer) writeHead() error {
	if s.started {
		return nil
	}
	s.started = true
	h := s.w.Header()
	h.Set("Content-Type", Media+"; charset=utf-8; header=present")
	h.Set("Content-Disposition", `attachment; filename="`+s.name+`.csv"`)
	return s.csv.Write(s.head)
}

// escapeFormula keeps a cell from being a formula: labels are what a user typed, and a spreadsheet would run them.
func escapeFormula(cell string) string {
	if cell == "" || !strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return cell
	}
	if _, err := strconv.ParseFloat(cell, 64); err == nil {
		return cell
	}
	return "'" + cell
}

// Time formats a time; empty for none.
func Time(t *stamp.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.String()
}

// Text returns a text; empty for none.
func Text(t *string) string {
	if t == nil {
		return ""
	}
	return *t
}
