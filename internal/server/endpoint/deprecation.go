package endpoint

import (
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Deprecation announces the end of an operation (docs/compatibility.md). It works at least 12 months after Since.
type Deprecation struct {
	// Since is when callers were told, Sunset when the operation may be gone.
	Since, Sunset time.Time
	// Instead says what to use, as a sentence.
	Instead string
}

// announce adds the headers Deprecation (RFC 9745) and Sunset (RFC 8594) to a response.
func (d *Deprecation) announce(h http.Header) {
	if d == nil {
		return
	}
	h.Set("Deprecation", "@"+strconv.FormatInt(d.Since.Unix(), 10))
	h.Set("Sunset", d.Sunset.UTC().Format(http.TimeFormat))
}

// describe marks the operation in the document.
func (d *Deprecation) describe(op *huma.Operation) {
	if d == nil {
		return
	}
	end := d.Sunset.UTC().Format(time.DateOnly)
	op.Deprecated = true
	op.Description = "Deprecated: it may be removed after " + end + ". " + d.Instead + "\n\n" + op.Description
	op.Extensions["x-sunset"] = end
}
