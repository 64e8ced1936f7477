# A shop on Rails: posts an event for each order, and receives what Breakwater delivers. One file, for `rackup` or `puma`.
require "action_controller/railtie"
require "net/http"
require "openssl"

class Shop < Rails::Application
  config.eager_load = false
  config.hosts.clear
  config.logger = Logger.new($stderr)
  config.secret_key_base = "the example has no sessions"

  routes.append do
    post "/orders", to: "shop#order"
    post "/webhooks", to: "shop#receive"
  end
end

class ShopController < ActionController::API
  def order
    order = JSON.parse(request.raw_post)
    event = { type: "order.created", tenant: "acme", data: order }
    answer = Net::HTTP.post(
      URI("#{ENV.fetch("BREAKWATER_URL")}/v1/events"),
      event.to_json,
      "Authorization" => "Bearer #{ENV.fetch("BREAKWATER_KEY")}",
      "Content-Type" => "application/json",
      "Idempotency-Key" => "order #{order["id"]}"
    )
    return render(plain: answer.body, status: :bad_gateway) unless answer.is_a?(Net::HTTPSuccess)

    render json: { event: JSON.parse(answer.body)["id"] }, status: :created
  end

  def receive
    return head :unauthorized unless signed?

    logger.info("#{request.headers["webhook-id"]} #{request.raw_post}")
    head :no_content
  end

  private

  # A signature of Standard Webhooks, of the exact bytes, made within five minutes.
  def signed?
    id, time, signatures = %w[webhook-id webhook-timestamp webhook-signature].map { |name| request.headers[name].to_s }
    return false if (Time.now.to_i - time.to_i).abs > 300

    key = ENV.fetch("WEBHOOK_SECRET").delete_prefix("whsec_").unpack1("m")
    digest = OpenSSL::HMAC.digest("SHA256", key, "#{id}.#{time}.".b + request.raw_post.b)
    expected = "v1,#{[digest].pack("m0")}"
    signatures.split.any? { |signature| ActiveSupport::SecurityUtils.secure_compare(signature, expected) }
  end
end

Rails.application.initialize!
run Rails.application
