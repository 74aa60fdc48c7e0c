package catalog

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
)

// Files says where a platform keeps files, and which of its methods return their URLs.
type Files struct {
	// At lists the folders that contain files: paths on the platform's own origin, or whole URLs. Each ends in a slash.
	// Nothing outside them is ever fetched.
	At []string
	// Cookies means that the session is sent with a request for a file.
	Cookies bool
	// Download and Upload are nil for a platform that has no such methods.
	Download *Download
	Upload   *Upload
	// Forms lists the methods that take a whole file in one multipart request. A platform has either Forms or Upload.
	Forms []*Form
}

// Download describes the method that returns the URL of a file.
type Download struct {
	Method *Method
	// ID is the name of the argument for the file's id.
	ID string
	// quality is the name of an argument, or empty. url is the name of a field of the result.
	quality, url string
}

// Upload describes the methods that upload a file in parts.
type Upload struct {
	// Begin announces a file, Part returns the URL of a part, and Finish completes the upload.
	Begin, Part, Finish *Method
	// PartID and PartNumber are the names of arguments of Part.
	PartID, PartNumber string

	// The names of arguments and fields of Begin, Part and Finish, as in the section files of the manifest.
	name, size, media, sha256, id, partSize string
	partURL, headers                        string
	finishID, parts, number, etag           string
}

// FileDraft describes a file to upload.
type FileDraft struct {
	Name, Type string
	// Size is in bytes.
	Size int64
	// SHA256 is hexadecimal, or empty if it is not known.
	SHA256 string
}

// FilePart is an uploaded part.
type FilePart struct {
	Number int
	ETag   string
}

// Args returns the arguments that request a file. An empty quality selects the platform's default.
func (d *Download) Args(id, quality string) (Args, error) {
	values := url.Values{d.ID: {id}}
	if quality != "" {
		if d.quality == "" {
			values.Set("quality", quality) // the method has no such argument, so FromQuery reports it as unknown
		} else {
			values.Set(d.quality, quality)
		}
	}
	return d.Method.FromQuery(values, false)
}

// URL returns the URL of the file from the method's result.
func (d *Download) URL(result []byte) (string, error) {
	var address string
	err := readMembers(result, map[string]any{d.url: &address})
	return address, err
}

// BeginArgs returns the arguments of Begin. The SHA-256 is omitted if it is not known or the platform does not take it.
func (u *Upload) BeginArgs(f FileDraft) (Args, error) {
	members := map[string]any{u.name: f.Name, u.size: f.Size, u.media: f.Type}
	if f.SHA256 != "" && u.sha256 != "" {
		members[u.sha256] = f.SHA256
	}
	return argsFromMembers(u.Begin, members)
}

// maxPartSize bounds the part size that a platform can ask for, in bytes.
const maxPartSize = 1 << 40

// Begun reads the id of the upload and the size of its parts, except the last, from the result of Begin.
func (u *Upload) Begun(result []byte) (id string, partSize int64, err error) {
	if err := readMembers(result, map[string]any{u.id: &id, u.partSize: &partSize}); err != nil {
		return "", 0, err
	}
	if id == "" || partSize < 1 || partSize > maxPartSize {
		return "", 0, fmt.Errorf("%w: the upload has no id or no valid part size", ErrChanged)
	}
	return id, partSize, nil
}

// PartArgs returns the arguments of Part. Parts are numbered from 1.
func (u *Upload) PartArgs(id string, number int) (Args, error) {
	return u.Part.FromQuery(url.Values{u.PartID: {id}, u.PartNumber: {strconv.Itoa(number)}}, false)
}

// Target reads the URL of a part, and the headers to send with it, from the result of Part. Headers that the transport
// sets, and cookies, are dropped.
func (u *Upload) Target(result []byte) (address string, header http.Header, err error) {
	wanted := map[string]any{u.partURL: &address}
	var given map[string]any
	if u.headers != "" {
		wanted[u.headers] = &given
	}
	if err := readMembers(result, wanted); err != nil {
		return "", nil, err
	}
	header = http.Header{}
	for name, value := range given {
		text, ok := value.(string)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(text) {
			return "", nil, fmt.Errorf("%w: a header of the part is not valid", ErrChanged)
		}
		if !slices.Contains(reservedHeaders, strings.ToLower(name)) {
			header.Set(name, text)
		}
	}
	return address, header, nil
}

// reservedHeaders are headers that a platform must not choose for the upload of a part.
var reservedHeaders = []string{
	"host", "cookie", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "proxy-authorization", "expect",
}

// FinishArgs returns the arguments of Finish. They list the parts if the platform has an argument for them.
func (u *Upload) FinishArgs(id string, parts []FilePart) (Args, error) {
	members := map[string]any{u.finishID: id}
	if u.parts != "" {
		list := make([]map[string]any, len(parts))
		for i, p := range parts {
			list[i] = map[string]any{u.number: p.Number}
			if p.ETag != "" {
				list[i][u.etag] = p.ETag
			}
		}
		members[u.parts] = list
	}
	return argsFromMembers(u.Finish, members)
}

// argsFromMembers builds arguments from Go values.
func argsFromMembers(m *Method, members map[string]any) (Args, error) {
	text, err := json.Marshal(members)
	if err != nil {
		return Args{}, fmt.Errorf("encode the arguments of %s: %w", m.ID(), err)
	}
	return m.FromObject(text, false)
}

// readMembers decodes members of a result into the given pointers. All of them must be present.
func readMembers(result []byte, into map[string]any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(result, &members); err != nil {
		return fmt.Errorf("%w: the result is not an object", ErrChanged)
	}
	for name, at := range into {
		if json.Unmarshal(members[name], at) != nil {
			return fmt.Errorf("%w: %s is missing or of another type", ErrChanged, name)
		}
	}
	return nil
}

// compileFiles compiles the section files. Every name in it must be an argument or a field of its method.
func (c *compiler) compileFiles() {
	in := c.doc.Files
	if in == nil {
		c.checkUploadsUsed()
		return
	}
	f := &Files{At: in.At, Cookies: in.Cookies}
	if d := in.Download; d != nil {
		m := c.namedMethod(c.cat.byName, "files.download", d.Method)
		if m.method != nil && m.method.Access != Read {
			m.fault("must be a read")
		}
		m.checkArgs(d.ID, d.Quality)
		m.checkField(d.URL, "download")
		f.Download = &Download{Method: m.method, ID: d.ID, quality: d.Quality, url: d.URL}
	}
	if u := in.Upload; u != nil {
		begin := c.namedMethod(c.cat.byName, "files.upload.begin", u.Begin.Method)
		part := c.namedMethod(c.cat.byName, "files.upload.part", u.Part.Method)
		finish := c.namedMethod(c.cat.byName, "files.upload.finish", u.Finish.Method)
		begin.checkArgs(u.Begin.Name, u.Begin.Size, u.Begin.Type, u.Begin.SHA256)
		begin.checkField(u.Begin.ID, "")
		begin.checkField(u.Begin.PartSize, "")
		part.checkArgs(u.Part.ID, u.Part.Number)
		part.checkField(u.Part.URL, "upload")
		if u.Part.Headers != "" {
			part.checkField(u.Part.Headers, "")
		}
		finish.checkArgs(u.Finish.ID, u.Finish.Parts)
		f.Upload = &Upload{
			Begin: begin.method, Part: part.method, Finish: finish.method,
			name: u.Begin.Name, size: u.Begin.Size, media: u.Begin.Type, sha256: u.Begin.SHA256, id: u.Begin.ID, partSize: u.Begin.PartSize,
			PartID: u.Part.ID, PartNumber: u.Part.Number, partURL: u.Part.URL, headers: u.Part.Headers,
			finishID: u.Finish.ID, parts: u.Finish.Parts, number: u.Finish.Number, etag: u.Finish.ETag,
		}
	}
	c.compileForms(f)
	c.cat.Files = f
}

// namedMethod is a method that upstream.yaml refers to, while it is checked.
type namedMethod struct {
	compiler *compiler
	// where is the key that refers to it, name the method's full name.
	where, name string
	// method and source are nil if there is no such method.
	method *Method
	source *manifest.Method
}

// namedMethod looks up a method among those that a key may refer to.
func (c *compiler) namedMethod(among map[string]*Method, where, name string) *namedMethod {
	m := &namedMethod{compiler: c, where: where, name: name}
	if m.method = among[name]; m.method == nil {
		c.upstreamFault("%s: there is no method %s", where, name)
		return m
	}
	// checkField needs the definition of the result, which the compiled method no longer has.
	for _, r := range c.doc.Resources {
		for _, one := range r.Methods {
			if r.Name == m.method.Resource && one.Name == m.method.Name {
				m.source = one
			}
		}
	}
	return m
}

func (m *namedMethod) fault(format string, args ...any) {
	m.compiler.upstreamFault("%s: %s %s", m.where, m.name, fmt.Sprintf(format, args...))
}

// checkArgs checks that the method has these arguments and requires no others. Empty names are ignored.
func (m *namedMethod) checkArgs(names ...string) {
	if m.method == nil {
		return
	}
	known := m.method.Positional()
	for _, name := range names {
		if name != "" && !slices.Contains(known, name) {
			m.fault("has no argument %s", name)
		}
	}
	for _, name := range m.method.Required() {
		if !slices.Contains(names, name) {
			m.fault("requires %s, which files does not provide", name)
		}
	}
}

// checkField checks that the method's result has a field that is never null and has a role. An empty role is not
// checked.
func (m *namedMethod) checkField(name, role string) {
	if m.source == nil {
		return
	}
	// The fields are inline, or those of a type.
	fields := m.source.Result.Fields
	for _, t := range m.compiler.doc.Types {
		if t.Name == m.source.Result.Of {
			fields = t.Fields
		}
	}
	i := slices.IndexFunc(fields, func(f *manifest.Field) bool { return f.Name == name })
	switch {
	case i < 0:
		m.fault("returns no %s", name)
	case fields[i].Nullable:
		m.fault("returns %s, which may be null", name)
	case role != "" && fields[i].Role != role:
		m.fault("returns %s, which lacks role: %s", name, role)
	}
}
