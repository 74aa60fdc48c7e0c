// Package csvexport writes lists as CSV, for people who open them in a spreadsheet, or as JSON.
package csvexport

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/stamp"
)

// Media is the type of a sheet.
const Media = "text/csv"

// MostRows bounds a sheet of what comes in pages otherwise: a request log has millions of rows, and somebody waits.
const MostRows = 10_000

// Wanted says whether a request asks for a sheet rather than for JSON.
func Wanted(h http.Header) bool {
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

// Writer writes a sheet row by row. Nothing is sent before a few kilobytes have gathered, so that a failure before that is an ordinary
// problem.
type Writer struct {
	w     http.ResponseWriter
	csv   *csv.Writer
	begun bool
	name  string
	head  []string
}

// New makes a sheet. The name is that of the file that a browser saves.
func New(w http.ResponseWriter, name string, columns ...string) *Writer {
	return &Writer{w: w, csv: csv.NewWriter(w), name: name, head: columns}
}

// Row adds a row.
func (s *Writer) Row(cells ...string) error {
	if err := s.begin(); err != nil {
		return err
	}
	for i, cell := range cells {
		cells[i] = harmless(cell)
	}
	return s.csv.Write(cells)
}

// End writes what is left, and the head of a sheet without rows.
func (s *Writer) End() error {
	if err := s.begin(); err != nil {
		return err
	}
	s.csv.Flush()
	return nil // what cannot be written has nobody to read it
}

func (s *Writer) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", Media+"; charset=utf-8; header=present")
	h.Set("Content-Disposition", `attachment; filename="`+s.name+`.csv"`)
	return s.csv.Write(s.head)
}

// harmless keeps a cell from being a formula: labels are whatever somebody typed, and a spreadsheet would run them.
func harmless(cell string) string {
	if cell == "" || !strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return cell
	}
	if _, err := strconv.ParseFloat(cell, 64); err == nil {
		return cell
	}
	return "'" + cell
}

// Time is a moment; empty for none.
func Time(t *stamp.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.String()
}

// Text is a text; empty for none.
func Text(t *string) string {
	if t == nil {
		return ""
	}
	return *t
}

// JSON answers with a document, where no sheet is wanted. A caller that has gone is not an error of the operation's.
func JSON(w http.ResponseWriter, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n'))
	return nil
}
