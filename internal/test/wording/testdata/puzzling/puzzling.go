// Package puzzling is for nobody.
package puzzling

type input struct {
	Size int `doc:"Left out, 10."`
}
