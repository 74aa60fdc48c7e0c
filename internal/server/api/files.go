package api

import (
	"encoding/json"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/calls/transfer"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// RangeInput is what a caller says of the part of a file that it wants. Its fields are there for the document: the headers are passed on
// as they came.
type RangeInput struct {
	ID      string `path:"id" maxLength:"64" doc:"The account's id."`
	Range   string `header:"Range" doc:"The bytes to send, such as bytes=0-1023."`
	IfRange string `header:"If-Range" doc:"The ETag that the range belongs to; if the file has changed, all of it comes."`
	IfNone  string `header:"If-None-Match" doc:"The ETag of what the caller has; 304 if the file has not changed."`
}

type mediaInput struct {
	RangeInput
	Media   string `path:"mediaId" maxLength:"64" doc:"The medium's id, as vault.list and the media of posts and messages have it."`
	Quality string `query:"quality" maxLength:"40" doc:"One of the qualities of the method that gives out the address; the platform's usual one if left out."`
}

type mediaURLInput struct {
	RangeInput
	URL string `query:"url" required:"true" minLength:"1" maxLength:"8192" doc:"The address, as it stands in a field with x-role download."`
}

type uploadInput struct {
	ID       string `path:"id" maxLength:"64" doc:"The account's id."`
	FileName string `query:"fileName" maxLength:"255" doc:"The file's name; needed unless the body is a form."`
	SHA256   string `query:"sha256" pattern:"^[0-9a-fA-F]{64}$" doc:"The file's SHA-256, which the platform compares with what arrives."`
}

type uploadPartInput struct {
	ID     string `path:"id" maxLength:"64" doc:"The account's id."`
	Upload string `path:"uploadId" maxLength:"64" doc:"uploadId of the problem that the upload ended with, or the id that uploads.init gave."`
	Number int    `path:"number" minimum:"1" maximum:"100000" doc:"Which part it is, from 1."`
}

type uploadBody struct {
	Result json.RawMessage `json:"result" doc:"What the platform says of the upload: the type Upload of GET /v1/sdk/methods."`
}

type uploadPartBody struct {
	Part struct {
		Number int    `json:"number"`
		ETag   string `json:"etag" doc:"What the platform calls the part; uploads.complete takes it."`
	} `json:"part"`
}

const tagMedia = "Media"

func (a *API) fileRoutes() {
	anything := []string{"*/*"}
	partial := map[int]any{http.StatusPartialContent: nil, http.StatusRequestedRangeNotSatisfiable: nil}
	refused := []problem.Kind{
		problem.AccountNotFound, problem.AccountPaused, problem.AccountDisconnected, problem.MethodNotAllowedForKey,
		problem.UpstreamAccountRestricted, problem.AccountReauthenticating, problem.EgressUnavailable, problem.UpstreamForbidden, problem.UpstreamNotFound,
		problem.UpstreamConflict, problem.UpstreamRejected, problem.UpstreamRateLimited, problem.UpstreamUnavailable, problem.UpstreamTimeout,
		problem.UpstreamError, problem.UpstreamInvalidResponse, problem.UpstreamChanged,
	}
	with := func(more ...problem.Kind) []problem.Kind { return append(more, refused...) }
	const unaudited = "The platform keeps what an account does there; the request log has the call."
	const file = "the bytes of the file"
	endpoint.Written(a.table, endpoint.Operation{
		ID: "downloadMedia", Method: http.MethodGet, Path: "/v1/accounts/{id}/media/{mediaId}", Tag: tagMedia, Status: http.StatusOK, Streams: true,
		Scope: scope.SDKCall, Quota: admission.Read, Account: "id", Media: anything, OtherAnswers: partial, Conditional: true, Problems: with(problem.ValidationFailed),
		Summary: "Download a medium", Description: "The file itself, through the account's region. Ranges and validators are passed on: 206, 304 and 416 are the platform's. " +
			"It counts as one read of the account. At most 8 transfers of an account are under way on one server; one more is refused with `account_transfers`.",
	}, a.downloadMedia)
	endpoint.Written(a.table, endpoint.Operation{
		ID: "fetchMedia", Method: http.MethodGet, Path: "/v1/accounts/{id}/media", Tag: tagMedia, Status: http.StatusOK, Streams: true,
		Scope: scope.SDKCall, Quota: admission.Read, Account: "id", Media: anything, OtherAnswers: partial, Conditional: true, Problems: with(problem.UnsafeURL),
		Summary: "Download from an address", Description: "The file behind an address that an answer of the platform holds, in a field that its schema marks with `x-role: download`: " +
			"an avatar, a thumbnail, a GIF. Addresses anywhere else are refused. Otherwise as downloading by id.",
	}, a.fetchMedia)
	endpoint.Written(a.table, endpoint.Operation{
		ID: "uploadMedia", Method: http.MethodPost, Path: "/v1/accounts/{id}/media", Tag: tagMedia, Status: http.StatusCreated, Takes: []string{"*/*", "multipart/form-data"}, Streams: true,
		Scope: scope.SDKCall, Quota: admission.Write, Account: "id", Unaudited: unaudited, Answer: uploadBody{}, Example: file,
		Problems: with(problem.PayloadTooLarge, problem.UnsupportedMediaType, problem.ValidationFailed),
		Summary:  "Upload a file", Description: "The body is the file, with its own Content-Type and a Content-Length; or `multipart/form-data` with the field `file` " +
			"and, before or after it, the optional field `args` (JSON: `fileName`, `size`, `mimeType`, `sha256`). What args leave out is taken from the field `file`. " +
			"The file is passed on as it comes and kept nowhere, unless a form does not tell its size first: then it is kept on disk, encrypted, until it is through. " +
			"A failure in the middle tells `uploadId` and `nextPart`: send that part and those behind it to `…/media/uploads/{uploadId}/parts/{number}`, then call `uploads.complete`. " +
			"It counts as one write of the account. An Idempotency-Key has no effect: resume instead.",
	}, a.uploadMedia)
	endpoint.Written(a.table, endpoint.Operation{
		ID: "uploadMediaPart", Method: http.MethodPut, Path: "/v1/accounts/{id}/media/uploads/{uploadId}/parts/{number}", Tag: tagMedia, Status: http.StatusOK, Takes: []string{"application/octet-stream"}, Streams: true,
		Scope: scope.SDKCall, Quota: admission.Read, Account: "id", Unaudited: unaudited, Answer: uploadPartBody{}, Example: file,
		Problems: with(problem.PayloadTooLarge, problem.ValidationFailed),
		Summary:  "Upload one part of a file", Description: "The body is the part's bytes, with a Content-Length: as many as `partSize` of the upload says, or what is left for the last one. " +
			"A part may be sent again. It counts as one read of the account.",
	}, a.uploadMediaPart)
}

// carrier is who asks for a transfer.
func carrier(r *http.Request, account string) (transfer.Caller, error) {
	at, err := parseAccount(account)
	if err != nil {
		return transfer.Caller{}, err
	}
	p := endpoint.Caller(r.Context())
	return transfer.Caller{
		Org: p.Org.ID, Environment: p.Org.Environment, Account: at, Admission: endpoint.From(r.Context()).Decision,
		May: p.Key.Allow.MayCall, MaxBytes: p.Org.Limits.UploadMaxBytes,
	}, nil
}

func (a *API) downloadMedia(w http.ResponseWriter, r *http.Request, in *mediaInput) error {
	c, err := carrier(r, in.ID)
	if err != nil {
		return err
	}
	return a.Transfers.Download(w, r, c, in.Media, in.Quality)
}

func (a *API) fetchMedia(w http.ResponseWriter, r *http.Request, in *mediaURLInput) error {
	c, err := carrier(r, in.ID)
	if err != nil {
		return err
	}
	return a.Transfers.Fetch(w, r, c, in.URL)
}

func (a *API) uploadMedia(w http.ResponseWriter, r *http.Request, in *uploadInput) error {
	c, err := carrier(r, in.ID)
	if err != nil {
		return err
	}
	result, err := a.Transfers.Upload(w, r, c, transfer.Given{FileName: in.FileName, SHA256: in.SHA256})
	if err != nil {
		return err
	}
	return answerWith(w, http.StatusCreated, uploadBody{Result: result})
}

func (a *API) uploadMediaPart(w http.ResponseWriter, r *http.Request, in *uploadPartInput) error {
	c, err := carrier(r, in.ID)
	if err != nil {
		return err
	}
	var out uploadPartBody
	out.Part.Number = in.Number
	if out.Part.ETag, err = a.Transfers.Part(w, r, c, in.Upload, in.Number); err != nil {
		return err
	}
	return answerWith(w, http.StatusOK, out)
}

func answerWith(w http.ResponseWriter, status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return write(w, append(text, '\n'))
}
