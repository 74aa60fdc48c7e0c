package apikey
