package dev

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// showLogLine prints a line of the server's JSON log in a readable form on standard error. Standard output has only the
// address and the key.
func (d *dev) showLogLine(line string) {
	o := d.app.Out
	var entry map[string]any
	if json.Unmarshal([]byte(line), &entry) != nil {
		o.Say("%s", output.OneLine(strings.TrimRight(line, "\n")))
		return
	}
	at, _ := time.Parse(time.RFC3339Nano, text(entry["time"]))
	level, message := text(entry["level"]), text(entry["msg"])
	for _, known := range []string{"time", "level", "msg", "node"} {
		delete(entry, known)
	}
	head := o.Err(output.Faint, output.Clock(at)) + "  "
	if message == "request" {
		o.Say("%s%s", head, d.requestLine(entry))
		return
	}
	tone := output.Plain
	switch level {
	case "ERROR":
		tone = output.Bad
	case "WARN":
		tone = output.Attention
	}
	var attrs []string
	for _, name := range slices.Sorted(maps.Keys(entry)) {
		attrs = append(attrs, name+"="+formatAttr(name, entry[name]))
	}
	o.Say("%s%s  %s", head, o.Err(tone, message), o.Err(output.Faint, output.OneLine(strings.Join(attrs, " "))))
}

// requestLine formats the log entry of an API request.
func (d *dev) requestLine(entry map[string]any) string {
	o := d.app.Out
	status, _ := entry["status"].(float64)
	line := fmt.Sprintf("%s  %-6s %-22s %8s", o.Err(output.StatusTone(int64(status)), fmt.Sprint(status)),
		text(entry["method"]), text(entry["operation"]), formatAttr("took", entry["took"]))
	for _, name := range []string{"code", "account_id", "request_id"} {
		if value := text(entry[name]); value != "" {
			line += "  " + o.Err(output.Faint, value)
		}
	}
	return line
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// formatAttr formats an attribute of a log entry. The attribute took is a duration in nanoseconds.
func formatAttr(name string, v any) string {
	if n, ok := v.(float64); ok && name == "took" {
		return output.Short(time.Duration(n))
	}
	if s, ok := v.(string); ok {
		return s
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(encoded)
}
