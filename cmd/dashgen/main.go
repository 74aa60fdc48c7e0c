// Dashgen writes the Grafana dashboards in deploy/grafana. The panels are in panels.go; this file gives them the form that
// Grafana imports.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// dashboard is one file.
type dashboard struct {
	// id is the name of the file and of the dashboard's address.
	id, title string
	rows      []row
}

// row is a group of panels with a heading.
type row struct {
	title  string
	panels []panel
}

// panel is a chart over time.
type panel struct {
	title string
	// help says what the reader should conclude from it.
	help string
	// unit is Grafana's: s, short, percentunit, reqps, bytes.
	unit string
	// lines are the expressions, each with the text of its legend.
	lines []line
}

type line struct{ expr, legend string }

// of is the selector of the nodes in every expression.
const of = `job=~"$job",instance=~"$instance"`

func main() {
	if err := write(filepath.Join("deploy", "grafana")); err != nil {
		fmt.Fprintln(os.Stderr, "dashgen:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	for _, d := range dashboards {
		text, err := json.MarshalIndent(d.model(), "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, d.id+".json"), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

type object = map[string]any

var source = object{"type": "prometheus", "uid": "${datasource}"}

const (
	columns     = 24 // of Grafana's grid
	panelWidth  = columns / 2
	panelHeight = 8
)

// model returns the dashboard as Grafana imports it.
func (d *dashboard) model() object {
	var panels []object
	y := 0
	add := func(p object, x, width, height int) {
		p["id"], p["gridPos"] = len(panels)+1, object{"x": x, "y": y, "w": width, "h": height}
		panels = append(panels, p)
	}
	for _, r := range d.rows {
		add(object{"type": "row", "title": r.title, "collapsed": false, "panels": []object{}}, 0, columns, 1)
		y++
		for i, p := range r.panels {
			add(p.model(), i%2*panelWidth, panelWidth, panelHeight)
			if i%2 == 1 || i == len(r.panels)-1 {
				y += panelHeight
			}
		}
	}
	return object{
		"uid": "stagedoor-" + d.id, "title": "Stagedoor: " + d.title, "tags": []string{"stagedoor"}, "schemaVersion": 39, "version": 1,
		"editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "utc", "time": object{"from": "now-3h", "to": "now"},
		"panels": panels, "annotations": object{"list": []object{}},
		"links": []object{{
			"type": "dashboards", "title": "Stagedoor", "tags": []string{"stagedoor"}, "asDropdown": true, "includeVars": true, "keepTime": true,
		}},
		"templating": object{"list": []object{
			{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
			variable("job", "Job", `label_values(stagedoor_scheduling_delay_seconds, job)`),
			variable("instance", "Node", `label_values(stagedoor_scheduling_delay_seconds{job=~"$job"}, instance)`),
		}},
	}
}

func variable(name, label, query string) object {
	return object{
		"name": name, "label": label, "type": "query", "datasource": source, "query": object{"query": query, "refId": name}, "definition": query,
		"refresh": 2, "includeAll": true, "multi": true, "allValue": ".+", "current": object{"text": "All", "value": "$__all"}, "sort": 1,
	}
}

func (p *panel) model() object {
	targets := make([]object, len(p.lines))
	for i, l := range p.lines {
		targets[i] = object{
			"refId": string(rune('A' + i)), "datasource": source, "legendFormat": l.legend, "range": true, "editorMode": "code",
			// OF stands for the selector: with other labels, or alone.
			"expr": strings.NewReplacer("{OF,", "{"+of+",", "{OF}", "{"+of+"}").Replace(l.expr),
		}
	}
	return object{
		"type": "timeseries", "title": p.title, "description": p.help, "datasource": source, "targets": targets,
		"fieldConfig": object{
			"defaults":  object{"unit": p.unit, "min": 0, "custom": object{"lineWidth": 2, "fillOpacity": 8, "showPoints": "never", "spanNulls": false}},
			"overrides": []object{},
		},
		"options": object{
			"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		},
	}
}
