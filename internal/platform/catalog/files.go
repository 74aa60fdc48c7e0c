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

// Files is where a platform keeps files, and which of its methods hand out their addresses.
type Files struct {
	// At are the addresses that files are below: a path on the platform's own origin, or a whole URL. Each ends in a slash.
	At []string
	// Cookies means that the session goes with a request for a file.
	Cookies bool
	// Download and Upload are nil for a platform that has no such methods.
	Download *Download
	Upload   *Upload
}

// Download is how a file is found by its id.
type Download struct {
	Method *Method
	// ID is the argument that the file's id is.
	ID           string
	quality, url string
}

// Upload is how a file is given to the platform, in parts.
type Upload struct {
	// Begin announces a file, Part asks for the address of a part, Finish hands over what has arrived.
	Begin, Part, Finish *Method
	// PartID and PartNumber are the arguments of Part.
	PartID, PartNumber string

	name, size, media, sha256, id, partSize string
	partURL, headers                        string
	finishID, parts, number, etag           string
}

// FileDraft is a file that is to be uploaded.
type FileDraft struct {
	Name, Type string
	Size       int64
	// SHA256 is in hexadecimal digits; empty if it is not known.
	SHA256 string
}

// FilePart is a part that has arrived.
type FilePart struct {
	Number int
	ETag   string
}

// Args are the arguments that ask for a file. An empty quality is the platform's usual one.
func (d *Download) Args(id, quality string) (Args, error) {
	values := url.Values{d.ID: {id}}
	if quality != "" {
		if d.quality == "" {
			values.Set("quality", quality) // which the method does not know, and says so
		} else {
			values.Set(d.quality, quality)
		}
	}
	return d.Method.FromQuery(values, false)
}

// URL is the file's address in the method's result.
func (d *Download) URL(result []byte) (string, error) {
	var address string
	err := pick(result, map[string]any{d.url: &address})
	return address, err
}

// BeginArgs announce a file.
func (u *Upload) BeginArgs(f FileDraft) (Args, error) {
	members := map[string]any{u.name: f.Name, u.size: f.Size, u.media: f.Type}
	if f.SHA256 != "" && u.sha256 != "" {
		members[u.sha256] = f.SHA256
	}
	return fromMembers(u.Begin, members)
}

// maxPartSize bounds what is believed of a platform: no part is larger than a file may be.
const maxPartSize = 1 << 40

// Begun reads the upload's id, and how large each of its parts but the last is.
func (u *Upload) Begun(result []byte) (id string, partSize int64, err error) {
	if err := pick(result, map[string]any{u.id: &id, u.partSize: &partSize}); err != nil {
		return "", 0, err
	}
	if id == "" || partSize < 1 || partSize > maxPartSize {
		return "", 0, fmt.Errorf("%w: an upload has an id and a size of its parts", ErrChanged)
	}
	return id, partSize, nil
}

// PartArgs ask for the address of a part. Parts are counted from 1.
func (u *Upload) PartArgs(id string, number int) (Args, error) {
	return u.Part.FromQuery(url.Values{u.PartID: {id}, u.PartNumber: {strconv.Itoa(number)}}, false)
}

// Target reads where a part goes, and the headers that must go with it.
func (u *Upload) Target(result []byte) (address string, header http.Header, err error) {
	wanted := map[string]any{u.partURL: &address}
	var given map[string]any
	if u.headers != "" {
		wanted[u.headers] = &given
	}
	if err := pick(result, wanted); err != nil {
		return "", nil, err
	}
	header = http.Header{}
	for name, value := range given {
		text, ok := value.(string)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(text) {
			return "", nil, fmt.Errorf("%w: the headers of a part are texts", ErrChanged)
		}
		if !slices.Contains(ownHeaders, strings.ToLower(name)) {
			header.Set(name, text)
		}
	}
	return address, header, nil
}

// ownHeaders are those that a request has by itself.
var ownHeaders = []string{
	"host", "cookie", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "proxy-authorization", "expect",
}

// FinishArgs hand over an upload. The parts are listed if the platform wants to be told.
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
	return fromMembers(u.Finish, members)
}

func fromMembers(m *Method, members map[string]any) (Args, error) {
	text, err := json.Marshal(members)
	if err != nil {
		return Args{}, fmt.Errorf("encode the arguments of %s: %w", m.ID(), err)
	}
	return m.FromObject(text, false)
}

// pick reads members of a result.
func pick(result []byte, into map[string]any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(result, &members); err != nil {
		return fmt.Errorf("%w: the result is no object", ErrChanged)
	}
	for name, at := range into {
		if json.Unmarshal(members[name], at) != nil {
			return fmt.Errorf("%w: %s is not what it was", ErrChanged, name)
		}
	}
	return nil
}

// files compiles where files are. Every name must be one of the method's.
func (c *compiler) files() {
	in := c.doc.Files
	if in == nil {
		return
	}
	f := &Files{At: in.At, Cookies: in.Cookies}
	if d := in.Download; d != nil {
		m := c.fileMethod("files.download", d.Method)
		if m.method != nil && m.method.Access != Read {
			m.fault("must be a read")
		}
		m.takes(d.ID, d.Quality)
		m.gives(d.URL, "download")
		f.Download = &Download{Method: m.method, ID: d.ID, quality: d.Quality, url: d.URL}
	}
	if u := in.Upload; u != nil {
		begin, part, finish := c.fileMethod("files.upload.begin", u.Begin.Method), c.fileMethod("files.upload.part", u.Part.Method), c.fileMethod("files.upload.finish", u.Finish.Method)
		begin.takes(u.Begin.Name, u.Begin.Size, u.Begin.Type, u.Begin.SHA256)
		begin.gives(u.Begin.ID, "")
		begin.gives(u.Begin.PartSize, "")
		part.takes(u.Part.ID, u.Part.Number)
		part.gives(u.Part.URL, "upload")
		if u.Part.Headers != "" {
			part.gives(u.Part.Headers, "")
		}
		finish.takes(u.Finish.ID, u.Finish.Parts)
		f.Upload = &Upload{
			Begin: begin.method, Part: part.method, Finish: finish.method,
			name: u.Begin.Name, size: u.Begin.Size, media: u.Begin.Type, sha256: u.Begin.SHA256, id: u.Begin.ID, partSize: u.Begin.PartSize,
			PartID: u.Part.ID, PartNumber: u.Part.Number, partURL: u.Part.URL, headers: u.Part.Headers,
			finishID: u.Finish.ID, parts: u.Finish.Parts, number: u.Finish.Number, etag: u.Finish.ETag,
		}
	}
	c.cat.Files = f
}

// fileMethod is a method that the section files names, on its way through the checks.
type fileMethod struct {
	compiler    *compiler
	where, name string
	// method and source are nil if there is none.
	method *Method
	source *manifest.Method
}

func (c *compiler) fileMethod(where, name string) *fileMethod {
	m := &fileMethod{compiler: c, where: where, name: name}
	if m.method = c.cat.byName[name]; m.method == nil {
		c.upstreamFault("%s: there is no method %s", where, name)
		return m
	}
	for _, r := range c.doc.Resources {
		for _, one := range r.Methods {
			if r.Name == m.method.Resource && one.Name == m.method.Name {
				m.source = one
			}
		}
	}
	return m
}

func (m *fileMethod) fault(format string, args ...any) {
	m.compiler.upstreamFault("%s: %s %s", m.where, m.name, fmt.Sprintf(format, args...))
}

// takes checks that the method has these arguments, and needs no other. Empty names are left out.
func (m *fileMethod) takes(names ...string) {
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
			m.fault("needs %s, which nobody gives it", name)
		}
	}
}

// gives checks that the method's result has a field, which is never null, in its role.
func (m *fileMethod) gives(name, role string) {
	if m.source == nil {
		return
	}
	fields := m.source.Result.Fields
	for _, t := range m.compiler.doc.Types {
		if t.Name == m.source.Result.Of {
			fields = t.Fields
		}
	}
	i := slices.IndexFunc(fields, func(f *manifest.Field) bool { return f.Name == name })
	switch {
	case i < 0:
		m.fault("gives no %s", name)
	case fields[i].Nullable:
		m.fault("gives %s, which may be null", name)
	case role != "" && fields[i].Role != role:
		m.fault("gives %s, which lacks role: %s", name, role)
	}
}
