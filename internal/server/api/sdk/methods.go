package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

// Formats of the catalogue in addition to the full one.
const (
	formatCompact = "compact"
	formatOpenAPI = "openapi"
	formatMCP     = "mcp"
)

type sdkInput struct {
	Platform    string `query:"platform" maxLength:"32" doc:"The platform whose methods are listed. Default: the first one of GET /v1/platforms."`
	Resource    string `query:"resource" maxLength:"64" doc:"Only the methods of this resource."`
	Access      string `query:"access" enum:"read,write" doc:"Only read methods, or only write methods."`
	Format      string `query:"format" enum:"compact,full,openapi,mcp" default:"full" doc:"compact omits the schemas; openapi is a document for code generators; mcp is a list of tools."`
	IfNoneMatch string `header:"If-None-Match" doc:"The ETag of your copy."`
}

type sdkOutput struct {
	Status       int
	ContentType  string `header:"Content-Type"`
	ETag         string `header:"ETag"`
	CacheControl string `header:"Cache-Control"`
	Vary         string `header:"Vary"`
	Encoding     string `header:"Content-Encoding"`
	Body         []byte
}

// sdkBody is the catalogue in the full format.
type sdkBody struct {
	_         struct{}                   `schema:"MethodCatalog" doc:"All SDK methods."`
	Version   string                     `json:"version" doc:"The catalogue's version."`
	Hash      string                     `json:"hash" doc:"Changes with any change of the catalogue."`
	Resources map[string][]string        `json:"resources" doc:"The names of the methods, by resource."`
	Methods   []sdkMethod                `json:"methods" doc:"The methods."`
	Types     map[string]json.RawMessage `json:"types" doc:"JSON Schema of the types that results refer to."`
}

// sdkMethod is one method in the full format.
type sdkMethod struct {
	_           struct{}        `schema:"MethodInfo" doc:"An SDK method."`
	Resource    string          `json:"resource" doc:"The resource, such as messages."`
	Method      string          `json:"method" doc:"The name, such as send."`
	Access      string          `json:"access" enum:"read,write" doc:"Whether it reads or changes something."`
	HTTP        []string        `json:"http" doc:"The HTTP methods with which it can be called."`
	Positional  []string        `json:"positional" doc:"The arguments in the order of the positional form."`
	Description string          `json:"description" doc:"What it does."`
	Args        json.RawMessage `json:"args" doc:"JSON Schema 2020-12 of the arguments."`
	Result      json.RawMessage `json:"result" doc:"JSON Schema 2020-12 of the result."`
	Example     json.RawMessage `json:"example" doc:"Arguments that work on the sandbox."`
	Idempotent  bool            `json:"idempotent" doc:"Whether it is safe to repeat."`
	Destructive bool            `json:"destructive" doc:"Whether it deletes something or cannot be undone."`
	Async       bool            `json:"async" doc:"Asynchronous: the result arrives as an event."`
	Sensitive   bool            `json:"sensitive" doc:"Whether it touches money or legal data."`
	Paginated   bool            `json:"paginated" doc:"Whether the result is a page of a list."`
	Credentials []string        `json:"credentials" doc:"What an account must be signed in with: session, token, oauth. It is one of Account.credentials."`
	Emits       []string        `json:"emits" doc:"The events that it normally causes."`
	Cost        int             `json:"cost" doc:"The number of calls that it counts as."`
	TimeoutMs   int64           `json:"timeoutMs" doc:"After how many milliseconds a call ends without a result."`
	Since       string          `json:"since" doc:"The version of the catalogue that added it."`
	Deprecated  *string         `json:"deprecated" doc:"The version that will remove it; null if it is not deprecated."`
}

// sdkCompact, sdkTools and sdkOpenAPI are the other formats, for the OpenAPI document.
type sdkCompact struct {
	_         struct{}            `schema:"CompactMethodCatalog" doc:"The methods of a platform without their types."`
	Version   string              `json:"version" doc:"The catalogue's version."`
	Hash      string              `json:"hash" doc:"Changes with any change of the catalogue."`
	Resources map[string][]string `json:"resources" doc:"The names of the methods, by resource."`
	Methods   []sdkName           `json:"methods" doc:"The methods."`
}

type sdkName struct {
	_           struct{} `schema:"CompactMethodInfo" doc:"A method without its types."`
	Resource    string   `json:"resource" doc:"The resource, such as messages."`
	Method      string   `json:"method" doc:"The name, such as send."`
	Access      string   `json:"access" enum:"read,write" doc:"Whether it reads or changes something."`
	HTTP        []string `json:"http" doc:"The HTTP methods with which it can be called."`
	Positional  []string `json:"positional" doc:"The arguments in the order of the positional form."`
	Description string   `json:"description" doc:"What it does."`
}

type sdkTools struct {
	_     struct{} `schema:"MethodsAsTools" doc:"The methods of a platform as tools of the Model Context Protocol."`
	Tools []tool   `json:"tools" doc:"The tools."`
}

type sdkOpenAPI struct {
	_          struct{}       `schema:"MethodsAsOpenAPI" doc:"The methods of a platform as an OpenAPI document."`
	OpenAPI    string         `json:"openapi" doc:"3.1.0"`
	Info       map[string]any `json:"info" doc:"The title and version of the document."`
	Servers    []any          `json:"servers" doc:"The address of the service."`
	Tags       []any          `json:"tags" doc:"The resources."`
	Paths      map[string]any `json:"paths" doc:"The methods."`
	Components map[string]any `json:"components" doc:"What the methods share."`
	SDK        map[string]any `json:"x-sdk" doc:"The catalogue's version and hash."`
}

// listRoutes adds the operation that lists methods.
func (c *calls) listRoutes(t *endpoint.Table) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "listMethods", Method: http.MethodGet, Path: "/v1/sdk/methods", Tag: "SDK", Status: http.StatusOK, Quota: admission.Free,
		Answer: sdkBody{}, OtherForms: []any{sdkCompact{}, sdkTools{}, sdkOpenAPI{}}, Conditional: true, Problems: []problem.Kind{problem.InvalidRequest},
		Summary: "List SDK methods", Description: "Every method that can be called on an account, with its arguments and result. " +
			"The list depends on the key's environment, and on the `methods` that the key is limited to. This call is free; the response has an ETag.",
	}, c.listMethods)
	t.Describe(func() (endpoint.Part, error) {
		shown := c.Platforms.Documented().Catalog
		p, err := describeMethods(shown, shown.Methods())
		if err != nil {
			return endpoint.Part{}, err
		}
		p.Events, err = describeEvents(shown)
		return p, err
	})
}

func (c *calls) listMethods(ctx context.Context, in *sdkInput) (*sdkOutput, error) {
	caller := endpoint.Caller(ctx)
	catalogue, err := c.listed(caller.Org.Environment, in.Platform)
	if err != nil {
		return nil, err
	}
	if _, ok := catalogue.Resource(in.Resource); in.Resource != "" && !ok {
		return nil, problem.InvalidRequest.New("There is no such resource.").With("suggestions", catalogue.NearestResource(in.Resource)).
			At("query/resource", "unknown", "is not a resource of the catalogue")
	}
	doc, err := c.documents.get(sdkKey{catalogue, in.Format, in.Resource, in.Access}, &caller.Key.Allow)
	if err != nil {
		return nil, err
	}
	// The body depends on the key, so shared caches must not store it. Private caches revalidate it, which is free.
	out := &sdkOutput{Status: http.StatusOK, ContentType: "application/json", ETag: doc.ETag, CacheControl: "private, no-cache", Vary: "Authorization, Accept-Encoding"}
	if endpoint.Matches(in.IfNoneMatch, doc.ETag) {
		out.Status, out.ContentType = http.StatusNotModified, ""
		return out, nil
	}
	out.Body, out.Encoding = doc.For(ctx)
	return out, nil
}

// listed returns the catalogue of a platform, or of the default one.
func (c *calls) listed(env environment.Environment, platform string) (*catalog.Catalog, error) {
	list := c.byEnvironment[env]
	if len(list) == 0 {
		return nil, noPlatform()
	}
	if platform == "" {
		return list[0].Catalog, nil
	}
	names := make([]string, len(list))
	for i, p := range list {
		if p.ID == platform {
			return p.Catalog, nil
		}
		names[i] = p.ID
	}
	return nil, problem.InvalidRequest.New("There is no such platform.").At("query/platform", "unknown", "must be one of "+strings.Join(names, ", "))
}

// sdkKey identifies a representation. Formats, resources and accesses are validated, so there are few.
type sdkKey struct {
	catalog                  *catalog.Catalog
	format, resource, access string
}

// sdkDocuments renders each representation once. There can be any number of those for keys that may not call
// everything, so they are kept in a cache of bounded size.
type sdkDocuments struct {
	url    string
	made   sync.Map // sdkKey to func() (endpoint.Document, error)
	narrow cache.Cache[narrowKey, endpoint.Document]
}

// narrowKey identifies a representation of some methods, with a bit for each method of the catalogue. Keys that may
// call the same methods share it.
type narrowKey struct {
	sdkKey
	methods string
}

// narrowBytes bounds the cache of representations for keys that may not call everything.
const narrowBytes = 64 << 20

func newSDKDocuments(url string) *sdkDocuments {
	return &sdkDocuments{url: url, narrow: cache.NewBytes(narrowBytes, 0, func(key narrowKey, doc endpoint.Document) uint32 {
		return uint32(doc.Size() + len(key.methods))
	})}
}

// get returns the representation of the methods that a key may call.
func (d *sdkDocuments) get(key sdkKey, allow *apikey.Allow) (endpoint.Document, error) {
	var methods []*catalog.Method
	all := key.catalog.Methods()
	bits, whole := make([]byte, (len(all)+7)/8), true
	for i, m := range all {
		switch {
		case (key.resource != "" && m.Resource != key.resource) || (key.access != "" && string(m.Access) != key.access):
		case allow.MayCall(keyMethod(m)):
			methods = append(methods, m)
			bits[i/8] |= 1 << (i % 8)
		default:
			whole = false
		}
	}
	if whole {
		made, ok := d.made.Load(key)
		if !ok {
			made, _ = d.made.LoadOrStore(key, sync.OnceValues(func() (endpoint.Document, error) { return d.render(key, methods) }))
		}
		render, _ := made.(func() (endpoint.Document, error))
		return render()
	}
	narrow := narrowKey{key, string(bits)}
	if doc, ok := d.narrow.Get(narrow); ok {
		return doc, nil
	}
	doc, err := d.render(key, methods)
	if err == nil {
		d.narrow.Put(narrow, doc)
	}
	return doc, err
}

func (d *sdkDocuments) render(key sdkKey, methods []*catalog.Method) (endpoint.Document, error) {
	var body any
	var err error
	switch key.format {
	case formatMCP:
		body, err = tools(methods)
	case formatOpenAPI:
		body, err = d.openAPI(key.catalog, methods)
	case formatCompact:
		body = compact(listing(key.catalog, methods))
	default:
		body = listing(key.catalog, methods)
	}
	if err != nil {
		return endpoint.Document{}, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return endpoint.Document{}, fmt.Errorf("encode the catalogue: %w", err)
	}
	return endpoint.NewDocument(text)
}

// listing returns the catalogue in the full format.
func listing(c *catalog.Catalog, methods []*catalog.Method) sdkBody {
	body := sdkBody{
		Version: c.Version, Hash: c.Revision, Resources: map[string][]string{}, Methods: []sdkMethod{}, Types: map[string]json.RawMessage{},
	}
	for _, m := range methods {
		body.Resources[m.Resource] = append(body.Resources[m.Resource], m.Name)
		view := viewMethod(m)
		for _, by := range c.Credentials() {
			if m.Accepts(by) {
				view.Credentials = append(view.Credentials, string(by))
			}
		}
		body.Methods = append(body.Methods, view)
	}
	for _, t := range typesOf(c, methods) {
		body.Types[t.Name] = t.Schema
	}
	return body
}

func viewMethod(m *catalog.Method) sdkMethod {
	view := sdkMethod{
		Resource: m.Resource, Method: m.Name, Access: string(m.Access), HTTP: []string{http.MethodPost},
		Positional: append([]string{}, m.Positional()...), Description: m.Summary,
		Args: m.ArgsSchema(), Result: m.ResultSchema(), Example: m.Example,
		Idempotent: m.Idempotent, Destructive: m.Destructive, Async: m.Async, Sensitive: m.Sensitive, Paginated: m.Paginated,
		Emits: append([]string{}, m.Emits...), Cost: m.Cost, TimeoutMs: m.Timeout.Milliseconds(), Since: m.Since,
	}
	if m.Access == catalog.Read {
		view.HTTP = []string{http.MethodGet, http.MethodPost}
	}
	if m.Deprecated != "" {
		view.Deprecated = &m.Deprecated
	}
	return view
}

// compact returns the catalogue without schemas and flags.
func compact(full sdkBody) object {
	methods := []object{}
	for _, m := range full.Methods {
		methods = append(methods, object{
			"resource": m.Resource, "method": m.Method, "access": m.Access, "http": m.HTTP, "positional": m.Positional, "description": m.Description,
		})
	}
	return object{"version": full.Version, "hash": full.Hash, "resources": full.Resources, "methods": methods}
}

// typeRef matches the types that a schema refers to.
var typeRef = regexp.MustCompile(`"\$ref":"#/types/([A-Za-z0-9]+)"`)

// typesOf returns the types that results refer to, directly or through other types.
func typesOf(c *catalog.Catalog, methods []*catalog.Method) []catalog.Type {
	byName := map[string]catalog.Type{}
	for _, t := range c.Types() {
		byName[t.Name] = t
	}
	needed := map[string]bool{}
	var need func(schema json.RawMessage)
	need = func(schema json.RawMessage) {
		for _, m := range typeRef.FindAllSubmatch(schema, -1) {
			if name := string(m[1]); !needed[name] {
				needed[name] = true
				need(byName[name].Schema)
			}
		}
	}
	for _, m := range methods {
		need(m.ResultSchema())
	}
	var list []catalog.Type
	for _, t := range c.Types() {
		if needed[t.Name] {
			list = append(list, t)
		}
	}
	return list
}
