package dev

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// show prints a line of the server's log for a person: requests as one would write them down, everything else with its facts. It goes to
// standard error; standard output has the address and the key.
func (d *dev) show(line string) {
	o := d.app.Out
	var entry map[string]any
	if json.Unmarshal([]byte(line), &entry) != nil {
		o.Say("%s", out.OneLine(strings.TrimRight(line, "\n")))
		return
	}
	at, _ := time.Parse(time.RFC3339Nano, text(entry["time"]))
	level, message := text(entry["level"]), text(entry["msg"])
	for _, known := range []string{"time", "level", "msg", "node"} {
		delete(entry, known)
	}
	head := o.Err(out.Faint, out.Clock(at)) + "  "
	if message == "request" {
		o.Say("%s%s", head, d.request(entry))
		return
	}
	tone := out.Plain
	switch level {
	case "ERROR":
		tone = out.Bad
	case "WARN":
		tone = out.Attention
	}
	var facts []string
	for _, name := range slices.Sorted(maps.Keys(entry)) {
		facts = append(facts, name+"="+fact(name, entry[name]))
	}
	o.Say("%s%s  %s", head, o.Err(tone, message), o.Err(out.Faint, out.OneLine(strings.Join(facts, " "))))
}

// request is a call of the API in a line.
func (d *dev) request(entry map[string]any) string {
	o := d.app.Out
	status, _ := entry["status"].(float64)
	line := fmt.Sprintf("%s  %-6s %-22s %8s", o.Err(out.StatusTone(int(status)), fmt.Sprint(status)), text(entry["method"]), text(entry["operation"]), fact("took", entry["took"]))
	for _, name := range []string{"code", "account_id", "request_id"} {
		if value := text(entry[name]); value != "" {
			line += "  " + o.Err(out.Faint, value)
		}
	}
	return line
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// fact is a value as a person would write it; durations are in nanoseconds.
func fact(name string, v any) string {
	if n, ok := v.(float64); ok && name == "took" {
		return out.Short(time.Duration(n))
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
