// Package media has the operations of the public API that move files to and from platforms. The transfer itself is done
// by calls/transfer.
package media

import (
	"encoding/json"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/calls/transfer"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

// RangeInput describes the conditional headers of a download. The fields exist for the OpenAPI document; the headers
// are forwarded unchanged.
type RangeInput struct {
	ID      string `path:"id" maxLength:"64" doc:"The account's id."`
	Range   string `header:"Range" doc:"The range of bytes, for example bytes=0-1023."`
	IfRange string `header:"If-Range" doc:"The ETag that the range belongs to. If the file has changed, the whole file is sent."`
	IfNone  string `header:"If-None-Match" doc:"The ETag of your copy. The response is 304 if the file has not changed."`
}

type mediaInput struct {
	RangeInput
	Media   string `path:"mediaId" maxLength:"64" doc:"The media id, from vault.list or from the media of posts and messages."`
	Quality string `query:"quality" maxLength:"40" doc:"One of the qualities of the method that returns the address. Default: the platform's usual quality."`
}

type mediaURLInput struct {
	RangeInput
	URL string `query:"url" required:"true" minLength:"1" maxLength:"8192" doc:"An address from a field with x-role download."`
}

type uploadInput struct {
	ID       string `path:"id" maxLength:"64" doc:"The account's id."`
	FileName string `query:"fileName" maxLength:"255" doc:"The file's name. Required unless the body is a form."`
	SHA256   string `query:"sha256" pattern:"^[0-9a-fA-F]{64}$" doc:"The file's SHA-256. The platform compares it with the received bytes."`
}

type uploadPartInput struct {
	ID     string `path:"id" maxLength:"64" doc:"The account's id."`
	Upload string `path:"uploadId" maxLength:"64" doc:"The uploadId of the problem with which the upload failed, or the id from uploads.init."`
	Number int    `path:"number" minimum:"1" maximum:"100000" doc:"The number of the part, from 1."`
}

type uploadBody struct {
	_      struct{}        `schema:"UploadResponse" doc:"The result of an upload."`
	Result json.RawMessage `json:"result" doc:"The platform's result of the upload: the type Upload of GET /v1/sdk/methods."`
}

type uploadPartBody struct {
	_    struct{} `schema:"UploadedPartResponse" doc:"One part of an upload."`
	Part struct {
		_      struct{} `schema:"UploadedPart" doc:"An uploaded part."`
		Number int      `json:"number" doc:"The number of the part, from 1."`
		ETag   string   `json:"etag" doc:"The platform's tag of the part, an argument of uploads.complete."`
	} `json:"part" doc:"The part."`
}

const tag = "Media"

type operations struct{ transfers *transfer.Transfers }

// Routes adds the operations.
func Routes(t *endpoint.Table, transfers *transfer.Transfers) {
	a := operations{transfers}
	anything := []string{"*/*"}
	partial := map[int]any{http.StatusPartialContent: nil, http.StatusRequestedRangeNotSatisfiable: nil}
	refused := []problem.Kind{
		problem.AccountNotFound, problem.AccountPaused, problem.AccountDisconnected, problem.MethodNotAllowedForKey,
		problem.UpstreamAccountRestricted, problem.AccountReauthenticating, problem.EgressUnavailable, problem.UpstreamForbidden, problem.UpstreamNotFound,
		problem.UpstreamConflict, problem.UpstreamRejected, problem.UpstreamRateLimited, problem.UpstreamUnavailable, problem.UpstreamTimeout,
		problem.UpstreamError, problem.UpstreamInvalidResponse, problem.UpstreamChanged,
	}
	with := func(more ...problem.Kind) []problem.Kind { return append(more, refused...) }
	const unaudited = "the platform records what an account does there, and the request log has the call"
	const file = "the bytes of the file"
	endpoint.Written(t, endpoint.Operation{
		ID: "downloadMedia", Method: http.MethodGet, Path: "/v1/accounts/{id}/media/{mediaId}", Tag: tag, Status: http.StatusOK, Streams: true,
		Scope: scope.SDKCall, Quota: admission.Read, Account: "id", Media: anything, OtherAnswers: partial, Conditional: true, Problems: with(problem.ValidationFailed),
		Summary: "Download a media file", Description: "Returns the file, through the account's region. Ranges and validators are forwarded: 206, 304 and 416 come from the platform. " +
			"A download counts as one read of the account. An account can have 8 concurrent transfers on one server; another one is refused with `account_transfers`.",
	}, a.downloadMedia)
	endpoint.Written(t, endpoint.Operation{
		ID: "fetchMedia", Method: http.MethodGet, Path: "/v1/accounts/{id}/media", Tag: tag, Status: http.StatusOK, Streams: true,
		Scope: scope.SDKCall, Quota: admission.Read, Account: "id", Media: anything, OtherAnswers: partial, Conditional: true, Problems: with(problem.UnsafeURL),
		Summary: "Download a file by URL", Description: "Returns the file at an address from a response of the platform, in a field that its schema marks with `x-role: download`: " +
			"an avatar, a thumbnail, a GIF. Other addresses are refused. Otherwise it works like a download by id.",
	}, a.fetchMedia)
	endpoint.Written(t, endpoint.Operation{
		ID: "uploadMedia", Method: http.MethodPost, Path: "/v1/accounts/{id}/media", Tag: tag, Status: http.StatusCreated, Takes: []string{"*/*", "multipart/form-data"}, Streams: true,
		Scope: scope.SDKCall, Quota: admission.Write, Account: "id", Unaudited: unaudited, Answer: uploadBody{}, Example: file,
		Problems: with(problem.PayloadTooLarge, problem.UnsupportedMediaType, problem.ValidationFailed),
		Summary:  "Upload a file", Description: "The body is the file, with its own Content-Type and a Content-Length, or `multipart/form-data` with the field `file` " +
			"and, before or after it, the optional field `args` (JSON: `fileName`, `size`, `mimeType`, `sha256`). Values missing in `args` are taken from the field `file`. " +
			"The file is forwarded as it arrives and not stored, except for a form that does not give the size first: it is stored on disk, encrypted, until it is sent. " +
			"If the upload fails half-way, the problem has `uploadId` and `nextPart`: send that part and the parts after it to `…/media/uploads/{uploadId}/parts/{number}`, then call `uploads.complete`. " +
			"An upload counts as one write of the account. An Idempotency-Key has no effect: resume instead.",
	}, a.uploadMedia)
	endpoint.Written(t, endpoint.Operation{
		ID: "uploadMediaPart", Method: http.MethodPut, Path: "/v1/accounts/{id}/media/uploads/{uploadId}/parts/{number}", Tag: tag, Status: http.StatusOK, Takes: []string{"application/octet-stream"}, Streams: true,
		Scope: scope.SDKCall, Quota: admission.Read, Account: "id", Unaudited: unaudited, Answer: uploadPartBody{}, Example: file,
		Problems: with(problem.PayloadTooLarge, problem.ValidationFailed),
		Summary:  "Upload a part of a file", Description: "The body is the part's bytes, with a Content-Length: `partSize` of the upload, or the rest for the last part. " +
			"A part may be sent again. It counts as one read of the account.",
	}, a.uploadMediaPart)
}

// transferCaller returns the caller of a transfer, with the limits of its key and org.
func transferCaller(r *http.Request, account string) (transfer.Caller, error) {
	at, err := endpoint.ParseAccount(account)
	if err != nil {
		return transfer.Caller{}, err
	}
	p := endpoint.Caller(r.Context())
	return transfer.Caller{
		Org: p.Org.ID, Account: at, Admission: endpoint.From(r.Context()).Decision,
		May: func(m *catalog.Method) bool {
			return p.Key.Allow.MayCall(apikey.Method{Platform: m.Platform, Resource: m.Resource, Name: m.Name, Sensitive: m.Sensitive})
		},
		MaxBytes: p.Org.Limits.UploadMaxBytes,
	}, nil
}

func (a operations) downloadMedia(w http.ResponseWriter, r *http.Request, in *mediaInput) error {
	c, err := transferCaller(r, in.ID)
	if err != nil {
		return err
	}
	return a.transfers.Download(w, r, c, in.Media, in.Quality)
}

func (a operations) fetchMedia(w http.ResponseWriter, r *http.Request, in *mediaURLInput) error {
	c, err := transferCaller(r, in.ID)
	if err != nil {
		return err
	}
	return a.transfers.Fetch(w, r, c, in.URL)
}

func (a operations) uploadMedia(w http.ResponseWriter, r *http.Request, in *uploadInput) error {
	c, err := transferCaller(r, in.ID)
	if err != nil {
		return err
	}
	result, err := a.transfers.Upload(w, r, c, transfer.Given{FileName: in.FileName, SHA256: in.SHA256})
	if err != nil {
		return err
	}
	return endpoint.WriteJSON(w, http.StatusCreated, uploadBody{Result: result})
}

func (a operations) uploadMediaPart(w http.ResponseWriter, r *http.Request, in *uploadPartInput) error {
	c, err := transferCaller(r, in.ID)
	if err != nil {
		return err
	}
	var out uploadPartBody
	out.Part.Number = in.Number
	if out.Part.ETag, err = a.transfers.Part(w, r, c, in.Upload, in.Number); err != nil {
		return err
	}
	return endpoint.WriteJSON(w, http.StatusOK, out)
}
