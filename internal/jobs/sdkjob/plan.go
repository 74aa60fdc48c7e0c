package sdkjob

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

// Choice chooses the accounts of an export. Without any member it chooses all accounts of the organisation that the caller
// may use and whose platform has the method.
type Choice struct {
	IDs []string
	// Platform, State and Metadata choose further; they are empty for any.
	Platform, State string
	Metadata        map[string]string
}

// Spec says what a job does.
type Spec struct {
	Method string
	Args   json.RawMessage
	// Share is 0 for the default.
	Share float64
}

// Item is an item of a bulk job.
type Item struct {
	AccountID string          `json:"accountId"`
	Args      json.RawMessage `json:"args"`
}

// PlanExport checks an export and returns it as a job. Errors are problems.
func (k *Kinds) PlanExport(ctx context.Context, caller *apikey.Principal, s Spec, choice Choice) (job.Draft, error) {
	first, err := k.find(caller, choice.Platform, s.Method)
	if err != nil {
		return job.Draft{}, err
	}
	if first.Access != catalog.Read {
		return job.Draft{}, problem.ValidationFailed.Newf("%s is a write, and an export only reads. Use a job of the kind bulk.", first.ID()).
			At("/method", "enum", "must be a read")
	}
	if len(s.Args) == 0 {
		s.Args = json.RawMessage("{}")
	}
	if _, err := first.FromObject(s.Args, false); err != nil {
		return job.Draft{}, below(err, "/args")
	}
	chosen, err := k.choose(ctx, caller, choice, s.Method)
	if err != nil {
		return job.Draft{}, err
	}
	p := params{Method: s.Method, Args: s.Args, Share: share(s), Count: len(chosen)}
	var input bytes.Buffer
	ids := make([]id.Account, 0, len(chosen))
	for _, a := range chosen {
		ids = append(ids, a.ID)
		p.addPlatform(a.Place.Platform)
		input.WriteString(string(a.ID) + "\n")
	}
	p.setAccounts(ids)
	return job.Draft{Kind: Export, Params: p, Input: input.Bytes()}, nil
}

func share(s Spec) float64 {
	if s.Share == 0 {
		return DefaultShare
	}
	return s.Share
}

func (p *params) addPlatform(platform string) {
	if !slices.Contains(p.Platforms, platform) {
		p.Platforms = append(p.Platforms, platform)
	}
}

// below puts the fields of a problem below a member of the body.
func below(err error, member string) error {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		for i := range p.Fields {
			p.Fields[i].Pointer = member + p.Fields[i].Pointer
		}
	}
	return err
}

// method returns a method of a platform.
func (k *Kinds) method(platform, name string) (*catalog.Method, bool) {
	p, ok := k.deps.Platforms.Get(platform)
	if !ok {
		return nil, false
	}
	resource, method, _ := strings.Cut(name, ".")
	return p.Catalog.Method(resource, method)
}

// find returns a method of a platform of the caller's environment, or of the first platform that has it.
func (k *Kinds) find(caller *apikey.Principal, platform, name string) (*catalog.Method, error) {
	var list []registry.Platform
	for _, p := range k.deps.Platforms.In(caller.Org.Environment) {
		if platform == "" || p.ID == platform {
			list = append(list, p)
		}
	}
	if len(list) == 0 && platform != "" {
		return nil, problem.ValidationFailed.Newf("There is no platform %s in this environment.", platform).At("/accounts/platform", "enum", "must be a platform of GET /v1/platforms")
	}
	for _, p := range list {
		if m, ok := k.method(p.ID, name); ok {
			return m, nil
		}
	}
	var near []string
	if len(list) > 0 {
		resource, method, _ := strings.Cut(name, ".")
		near = list[0].Catalog.Nearest(resource, method)
	}
	return nil, problem.MethodNotFound.New("The SDK has no such method. GET /v1/sdk/methods lists all methods.").With("suggestions", near)
}

// choose returns the accounts of an export, sorted by id.
func (k *Kinds) choose(ctx context.Context, caller *apikey.Principal, c Choice, method string) ([]account.Account, error) {
	f := account.Filter{Platform: c.Platform, Among: caller.Key.Allow.Accounts}
	if c.State != "" {
		f.States = []account.State{account.State(c.State)}
	}
	if c.IDs != nil {
		return k.named(ctx, caller, c, method)
	}
	var chosen []account.Account
	errMany := problem.ValidationFailed.Newf("An export can have %d accounts. Choose fewer, and start several.", MaxAccounts)
	err := k.deps.Accounts.List(ctx, caller.Org.ID, f, func(a account.Account) error {
		if _, has := k.method(a.Place.Platform, method); !has || !hasMetadata(a, c.Metadata) {
			return nil
		}
		if chosen = append(chosen, a); len(chosen) > MaxAccounts {
			return errMany
		}
		return nil
	})
	return chosen, err
}

func hasMetadata(a account.Account, want map[string]string) bool {
	for name, value := range want {
		if got, has := a.Metadata[name]; !has || got != value {
			return false
		}
	}
	return true
}

// named returns the accounts with the ids of a choice that match it otherwise.
func (k *Kinds) named(ctx context.Context, caller *apikey.Principal, c Choice, method string) ([]account.Account, error) {
	ids := make([]id.Account, len(c.IDs))
	for i, text := range c.IDs {
		at, err := id.Parse[id.Account](text)
		if err != nil {
			return nil, accountNotFound(text)
		}
		ids[i] = at
	}
	found, err := k.load(ctx, caller, ids)
	if err != nil {
		return nil, err
	}
	var chosen []account.Account
	for _, at := range slices.Sorted(maps.Keys(found)) {
		a := found[at]
		if c.State != "" && a.State != account.State(c.State) || c.Platform != "" && a.Place.Platform != c.Platform || !hasMetadata(a, c.Metadata) {
			continue
		}
		if _, has := k.method(a.Place.Platform, method); !has {
			return nil, problem.MethodNotFound.Newf("The platform of %s has no method %s.", at, method).With("suggestions", []string{})
		}
		chosen = append(chosen, a)
	}
	return chosen, nil
}

// loadAtMost is how many accounts are read by one query.
const loadAtMost = 500

// load reads accounts by their ids. It returns a problem if the caller may not use one, or if there is none.
func (k *Kinds) load(ctx context.Context, caller *apikey.Principal, ids []id.Account) (map[id.Account]account.Account, error) {
	wanted := slices.Compact(slices.Sorted(slices.Values(ids)))
	for _, at := range wanted {
		if !caller.Key.Allow.MayUse(at) {
			return nil, problem.AccountNotAllowedForKey.Newf("This key may not use %s.", at).With("accountId", at)
		}
	}
	found := make(map[id.Account]account.Account, len(wanted))
	for some := range slices.Chunk(wanted, loadAtMost) {
		err := k.deps.Accounts.List(ctx, caller.Org.ID, account.Filter{Among: some}, func(a account.Account) error {
			found[a.ID] = a
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, at := range wanted {
		if _, has := found[at]; !has {
			return nil, accountNotFound(string(at))
		}
	}
	return found, nil
}

func accountNotFound(at string) error {
	return problem.AccountNotFound.New("The organisation has no account with this id.").With("accountId", at)
}

// PlanBulk checks a bulk job and returns it as a job. Without items it waits for them. Errors are problems.
func (k *Kinds) PlanBulk(ctx context.Context, caller *apikey.Principal, s Spec, items []Item) (job.Draft, error) {
	m, err := k.find(caller, "", s.Method)
	if err != nil {
		return job.Draft{}, err
	}
	p := params{Method: s.Method, Share: share(s), Platforms: []string{m.Platform}}
	if items == nil {
		return job.Draft{Kind: Bulk, Params: p, Awaits: true}, nil
	}
	return k.withItems(ctx, caller, p, items, "/items/")
}

// PlanItems checks the items that are uploaded for a bulk job: an item of JSON on each line.
func (k *Kinds) PlanItems(ctx context.Context, caller *apikey.Principal, j *job.Job, text []byte) (job.Draft, error) {
	var p params
	if err := json.Unmarshal(j.Params, &p); err != nil || j.Kind != Bulk {
		return job.Draft{}, problem.ValidationFailed.New("The job takes no items: it is not a bulk job.").At("path/id", "kind", "must be a job of the kind bulk")
	}
	var items []Item
	scan := bufio.NewScanner(bytes.NewReader(text))
	scan.Buffer(nil, 1<<20)
	for line := 1; scan.Scan(); line++ {
		if len(bytes.TrimSpace(scan.Bytes())) == 0 {
			continue
		}
		var one Item
		read := json.NewDecoder(bytes.NewReader(scan.Bytes()))
		read.DisallowUnknownFields()
		if err := read.Decode(&one); err != nil || read.More() {
			return job.Draft{}, problem.MalformedJSON.Newf("Line %d is not an item such as {\"accountId\": …, \"args\": {…}}.", line)
		}
		if items = append(items, one); len(items) > MaxItems {
			return job.Draft{}, problem.PayloadTooLarge.Newf("A bulk job can have %d items.", MaxItems).With("limit", MaxItems)
		}
	}
	if scan.Err() != nil {
		return job.Draft{}, problem.PayloadTooLarge.New("A line has more than 1 MiB.").With("limit", 1<<20)
	}
	if len(items) == 0 {
		return job.Draft{}, problem.ValidationFailed.New("The upload has no items.")
	}
	return k.withItems(ctx, caller, p, items, "/")
}

// storedItem is an item in the input of a job. Its place is its index.
type storedItem struct {
	Account id.Account      `json:"a"`
	Args    json.RawMessage `json:"x"`
}

// maxFaults is how many invalid items a problem lists.
const maxFaults = 20

// withItems checks items and returns the job with them. at is where they are in the body.
func (k *Kinds) withItems(ctx context.Context, caller *apikey.Principal, p params, items []Item, at string) (job.Draft, error) {
	ids := make([]id.Account, len(items))
	for i, one := range items {
		parsed, err := id.Parse[id.Account](one.AccountID)
		if err != nil {
			return job.Draft{}, accountNotFound(one.AccountID)
		}
		ids[i] = parsed
	}
	found, err := k.load(ctx, caller, ids)
	if err != nil {
		return job.Draft{}, err
	}
	p.Platforms, p.Count = nil, len(items)
	p.setAccounts(slices.Sorted(maps.Keys(found)))
	bad := problem.ValidationFailed.New("Some items are invalid, and nothing was started.")
	var input bytes.Buffer
	for i := range items {
		platform := found[ids[i]].Place.Platform
		p.addPlatform(platform)
		m, has := k.method(platform, p.Method)
		if !has {
			bad.At(at+strconv.Itoa(i)+"/accountId", "platform", "must be an account of a platform that has the method "+p.Method)
			continue
		}
		stored, fields, err := storeItem(m, ids[i], items[i].Args, at+strconv.Itoa(i))
		if err != nil {
			return job.Draft{}, err
		}
		if bad.Fields = append(bad.Fields, fields...); len(bad.Fields) >= maxFaults {
			return job.Draft{}, bad
		}
		input.Write(append(stored, '\n'))
	}
	if len(bad.Fields) > 0 {
		return job.Draft{}, bad
	}
	return job.Draft{Kind: Bulk, Params: p, Input: input.Bytes()}, nil
}

// storeItem returns an item as it is stored, or what is wrong with its arguments.
func storeItem(m *catalog.Method, at id.Account, args json.RawMessage, place string) (stored []byte, fields []problem.Field, err error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if _, err := m.FromObject(args, false); err != nil {
		p, ok := errors.AsType[*problem.Error](err)
		if !ok {
			return nil, nil, err
		}
		if len(p.Fields) == 0 {
			return nil, []problem.Field{{Pointer: place + "/args", Code: "type", Detail: p.Detail}}, nil
		}
		_ = below(p, place+"/args")
		return nil, p.Fields, nil
	}
	stored, err = json.Marshal(storedItem{at, args})
	if err != nil {
		return nil, nil, fmt.Errorf("encode an item: %w", err)
	}
	return stored, nil, nil
}
