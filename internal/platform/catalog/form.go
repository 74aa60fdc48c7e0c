package catalog

import (
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/call"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
)

// Form describes a method that takes a whole file as one field of a multipart request.
type Form struct {
	Method *Method
	// Field is the name of the form field with the file.
	Field string

	// types are media types, such as image/png or image/*. nil means all.
	types []string
	// url is the name of a field of the result.
	url string
}

// FormField is a field of a form that is not a file.
type FormField = call.FormField

// FormFor returns the form for files of a media type, such as image/png. It returns false if the platform has none.
func (f *Files) FormFor(mediaType string) (*Form, bool) {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	i := slices.IndexFunc(f.Forms, func(form *Form) bool { return form.accepts(mediaType) })
	if i < 0 {
		return nil, false
	}
	return f.Forms[i], true
}

func (f *Form) accepts(mediaType string) bool {
	return f.types == nil || slices.ContainsFunc(f.types, func(one string) bool {
		group, all := strings.CutSuffix(one, "*")
		return one == mediaType || all && strings.HasPrefix(mediaType, group)
	})
}

// Args returns the arguments of the method, which are all defaults.
func (f *Form) Args() (Args, error) { return f.Method.FromObject([]byte("{}"), false) }

// Request builds the request without its body, and the fields that precede the file in the form.
func (f *Form) Request(args Args) (Request, []FormField) {
	req := args.Request()
	req.Body = nil
	return req, args.FormFields()
}

// URL returns the URL of the uploaded file from the method's result. It returns false if the result has none.
func (f *Form) URL(result []byte) (string, bool) {
	var address string
	err := readMembers(result, map[string]any{f.url: &address})
	return address, err == nil && address != ""
}

// compileForms compiles files.forms. Each method with upload: true must be in one form at least.
func (c *compiler) compileForms(f *Files) {
	in := c.doc.Files
	if in.Forms != nil && in.Upload != nil {
		c.upstreamFault("files: give either upload or forms")
	}
	for _, form := range in.Forms {
		m := c.namedMethod(c.uploads, "files.forms", form.Method)
		m.checkArgs()
		m.checkField(form.URL, "")
		if m.method != nil && slices.Contains(m.method.spec.FormNames(), form.Field) {
			m.fault("sends another value as %s", form.Field)
		}
		if n := len(f.Forms); n > 0 && f.Forms[n-1].types == nil {
			c.upstreamFault("files.forms: %s is never used, because the form before it takes all types", form.Method)
		}
		f.Forms = append(f.Forms, &Form{Method: m.method, Field: form.Field, types: form.Types, url: form.URL})
	}
	c.checkUploadsUsed()
}

// checkUploadsUsed checks that a form refers to every method with upload: true, because it cannot be called otherwise.
func (c *compiler) checkUploadsUsed() {
	for _, r := range c.doc.Resources {
		for _, m := range r.Methods {
			name := r.Name + "." + m.Name
			usesIt := func(form manifest.Form) bool { return form.Method == name }
			if m.Upload && (c.doc.Files == nil || !slices.ContainsFunc(c.doc.Files.Forms, usesIt)) {
				c.fault(m.Pos, "%s: upload: true requires an entry in files.forms", name)
			}
		}
	}
}
