# A complete receiver for Breakwater's webhooks. Ruby 3.1 or later, and the gem webrick, which was part of Ruby before 3.0.
#
#   WEBHOOK_SECRET=whsec_… ruby receiver.rb
#   WEBHOOK_JWKS=https://breakwater.example.com/v1/destinations/dst_…/jwks.json ruby receiver.rb
#
# The first verifies HMAC-SHA256 with the destination's secret, the second ed25519 with its public keys.
# frozen_string_literal: true

require "json"
require "net/http"
require "openssl"
require "webrick"

TOLERANCE_S = 300
MAX_BODY_BYTES = 1024 * 1024
REMEMBERED_S = 7 * 24 * 60 * 60

# The answer to a refused request.
class Refused < StandardError
  attr_reader :status

  def initialize(status, message)
    super(message)
    @status = status
  end
end

# The decoded signatures of a version.
def signatures_of(version, signatures)
  signatures.split(" ").filter_map do |one|
    given, text = one.split(",", 2)
    text.unpack1("m0") if given == version && text
  rescue ArgumentError
    nil # It is not base64, so it is not a signature.
  end
end

class HmacVerifier
  def initialize(secret)
    raise "WEBHOOK_SECRET begins with whsec_" unless secret.start_with?("whsec_")

    @key = secret.delete_prefix("whsec_").unpack1("m0")
  end

  # There is one signature for each secret that is in force.
  def signed?(content, signatures)
    expected = OpenSSL::HMAC.digest("SHA256", @key, content)
    signatures_of("v1", signatures).any? do |bytes|
      bytes.bytesize == expected.bytesize && OpenSSL.fixed_length_secure_compare(bytes, expected)
    end
  end
end

class Ed25519Verifier
  # The bytes before the 32 bytes in the DER form of a public key (RFC 8410).
  DER_START = ["302a300506032b6570032100"].pack("H*")

  def initialize(jwks)
    @jwks = URI(jwks)
    @mutex = Mutex.new
    @fetched_at = -Float::INFINITY
  end

  def signed?(content, signatures)
    given = signatures_of("v1a", signatures)
    # A key that is not known may be new: the destination's secret has been rotated.
    [300, 1].any? do |max_age|
      keys(max_age).any? { |key| given.any? { |bytes| matches?(key, bytes, content) } }
    end
  end

  private

  def matches?(key, bytes, content)
    bytes.bytesize == 64 && key.verify(nil, bytes, content)
  rescue OpenSSL::PKey::PKeyError
    false
  end

  # The keys, fetched again when they are older than this; the last known ones when they cannot be fetched.
  def keys(max_age_seconds)
    @mutex.synchronize do
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      if now - @fetched_at >= (@keys ? max_age_seconds : 1)
        @fetched_at = now
        begin
          @keys = fetch
        rescue StandardError => e
          warn "The public keys cannot be fetched: #{e.message}"
        end
      end
      @keys or raise Refused.new(503, "the public keys are not known")
    end
  end

  def fetch
    options = { use_ssl: @jwks.scheme == "https", open_timeout: 5, read_timeout: 5 }
    response = Net::HTTP.start(@jwks.host, @jwks.port, **options) { |http| http.get(@jwks.request_uri) }
    raise "answered #{response.code}" unless response.is_a?(Net::HTTPOK)

    usable = JSON.parse(response.body).fetch("keys").select { |key| key["kty"] == "OKP" && key["crv"] == "Ed25519" }
    usable.map { |key| OpenSSL::PKey.read(DER_START + "#{key.fetch("x").tr("-_", "+/")}=".unpack1("m0")) }
  end
end

# Raises unless the request was signed less than five minutes ago. `body` is its raw bytes.
def verify(request, body, verifier)
  id, timestamp, signatures = %w[webhook-id webhook-timestamp webhook-signature].map { |name| request[name] }
  raise Refused.new(401, "a webhook header is missing") if [id, timestamp, signatures].any? { |one| one.to_s.empty? }

  is_recent = timestamp.match?(/\A[0-9]{1,12}\z/) && (Time.now.to_i - timestamp.to_i).abs <= TOLERANCE_S
  raise Refused.new(401, "the timestamp is too old or too new") unless is_recent

  content = "#{id}.#{timestamp}.".b + body.b
  raise Refused.new(401, "no signature matches") unless verifier.signed?(content, signatures)
end

# The ids that have been handled. In production this is a table with a unique column: insert the id in the transaction
# that stores the effect, so that both or neither survive a crash.
class Handled
  def initialize
    @mutex = Mutex.new
    @at = {}
  end

  # Whether this is the first request with the id.
  def claim(id)
    @mutex.synchronize do
      oldest = Time.now - REMEMBERED_S
      @at.delete_if { |_, at| at < oldest }
      return false if @at.key?(id)

      @at[id] = Time.now
      true
    end
  end

  def release(id)
    @mutex.synchronize { @at.delete(id) }
  end
end

# The application's handling of an event.
def handle(id, event)
  puts "handled #{id} #{event.fetch("type")}"
end

class Receiver < WEBrick::HTTPServlet::AbstractServlet
  def initialize(server, verifier, handled)
    super(server)
    @verifier = verifier
    @handled = handled
  end

  def service(request, response)
    receive(request)
    response.status = 204
  rescue Refused => e
    response["retry-after"] = "30" if e.status == 503
    response.status = e.status
    response.body = e.message
  end

  private

  def receive(request)
    raise Refused.new(405, "only POST is accepted") unless request.request_method == "POST"
    raise Refused.new(411, "the length of the body is missing") unless request["content-length"]
    raise Refused.new(413, "the body is too large") if request["content-length"].to_i > MAX_BODY_BYTES

    body = request.body.to_s
    verify(request, body, @verifier)
    id = request["webhook-id"]
    return puts("duplicate #{id}") unless @handled.claim(id)

    begin
      handle(id, JSON.parse(body))
    rescue StandardError
      @handled.release(id)
      raise
    end
  end
end

if $PROGRAM_NAME == __FILE__
  $stdout.sync = true
  secret, jwks = ENV.values_at("WEBHOOK_SECRET", "WEBHOOK_JWKS")
  abort "Set either WEBHOOK_SECRET or WEBHOOK_JWKS" if secret.nil? == jwks.nil?
  verifier = secret ? HmacVerifier.new(secret) : Ed25519Verifier.new(jwks)
  server = WEBrick::HTTPServer.new(
    BindAddress: "127.0.0.1",
    Port: Integer(ENV.fetch("PORT", "8788")),
    Logger: WEBrick::Log.new($stderr, WEBrick::Log::WARN),
    AccessLog: [],
  )
  server.mount("/", Receiver, verifier, Handled.new)
  puts "listening on #{server.listeners.first.addr[1]}"
  %w[INT TERM].each { |signal| trap(signal) { server.shutdown } }
  server.start
end
